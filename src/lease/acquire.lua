-- Grants leases with their fencing tokens. rules.rs is the specification: rules::acquire.
-- KEYS  lease and fence of each SKU
-- ARGV  attempt, holder, TTL in ms, idle time of a fence in ms; then for each SKU: the previous attempt or '',
--       epoch and sequence of the floor
-- Reply this server's incarnation, then a line for each SKU

-- 2^40 - 1: the largest sequence, far below 2^53, so that Lua's numbers are exact.
local MAX_SEQUENCE = 1099511627775
-- 2025-01-01T00:00:00Z in ms.
local CLOCK_START = 1735689600000
local COMMON = 4

local call = redis.call
local attempt, ttl, idle = ARGV[1], tonumber(ARGV[3]), ARGV[4]
-- What a lease says before its token: attempt, holder, incarnation.
local signature = attempt .. ' ' .. ARGV[2] .. ' ' .. here .. ' '
local time = call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000) - CLOCK_START

local function below(epoch, sequence, floor_epoch, floor_sequence)
  return epoch < floor_epoch or (epoch == floor_epoch and sequence < floor_sequence)
end

-- The lease as it counts: one of another incarnation, or with more time left than any of ours, was restored from a copy.
local function live(key, value)
  if not value then return nil end
  local owner, made_by, epoch, sequence = string.match(value, '^(%S+) %S+ (%S+) (%d+) (%d+)$')
  if made_by ~= here then return nil end
  local left = call('PTTL', key)
  if left < 0 or left > ttl then return nil end
  return owner, epoch, sequence, left
end

local function answer(lease_key, lease, fence_key, previous, floor_epoch, floor_sequence)
  local owner, owned_epoch, owned_sequence, left = live(lease_key, lease)
  if owner and owner ~= attempt and owner ~= previous then return 'held ' .. left end

  -- A key of another type gives an error table, with none of the fields: no counter.
  local fence = redis.pcall('HMGET', fence_key, 'incarnation', 'epoch', 'sequence')
  local epoch, sequence = tonumber(fence[2] or ''), tonumber(fence[3] or '')
  if not epoch or not sequence or sequence > MAX_SEQUENCE then return 'unknown missing' end
  if fence[1] ~= here then return 'unknown incarnation' end
  if below(epoch, sequence, floor_epoch, floor_sequence) then return 'unknown behind' end

  if owner == attempt and below(floor_epoch, floor_sequence, tonumber(owned_epoch), tonumber(owned_sequence)) then
    call('PEXPIRE', lease_key, ttl)
    return 'granted ' .. owned_epoch .. ' ' .. owned_sequence
  end

  local next = math.max(sequence + 1, clock)
  if next > MAX_SEQUENCE then return 'exhausted' end
  -- By itself Lua would print a large number as 1e+14.
  next = string.format('%d', next)
  local token = fence[2] .. ' ' .. next
  call('HSET', fence_key, 'sequence', next)
  call('PEXPIRE', fence_key, idle)
  call('SET', lease_key, signature .. token, 'PX', ttl)
  return 'granted ' .. token
end

local lease_keys = {}
for i = 1, #KEYS, 2 do lease_keys[#lease_keys + 1] = KEYS[i] end
-- All in one command, which gives nothing for a key of another type: whoever made it, it is no lease.
local leases = #KEYS > 0 and call('MGET', unpack(lease_keys)) or {}

local replies = {here}
for i, lease in ipairs(leases) do
  local arg = COMMON + (i - 1) * 3
  replies[i + 1] =
    answer(lease_keys[i], lease, KEYS[2 * i], ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]))
end
return replies
