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

local attempt, holder, ttl, idle = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - CLOCK_START

-- The lease as it counts: one of another incarnation, or with more time left than any of ours, was restored from a copy.
local function live(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local owner, made_by, epoch, sequence = string.match(value, '^(%S+) %S+ (%S+) (%d+) (%d+)$')
  if made_by ~= here then return nil end
  local left = redis.call('PTTL', key)
  if left < 0 or left > ttl then return nil end
  return {owner = owner, epoch = epoch, sequence = sequence, left = left}
end

local function below(epoch, sequence, floor_epoch, floor_sequence)
  return epoch < floor_epoch or (epoch == floor_epoch and sequence < floor_sequence)
end

local function answer(lease_key, fence_key, previous, floor_epoch, floor_sequence)
  local lease = live(lease_key)
  if lease and lease.owner ~= attempt and lease.owner ~= previous then return 'held ' .. lease.left end

  local fence = redis.call('HMGET', fence_key, 'incarnation', 'epoch', 'sequence')
  local epoch, sequence = tonumber(fence[2]), tonumber(fence[3])
  if not epoch or not sequence or sequence > MAX_SEQUENCE then return 'unknown missing' end
  if fence[1] ~= here then return 'unknown incarnation' end
  if below(epoch, sequence, floor_epoch, floor_sequence) then return 'unknown behind' end

  if lease and lease.owner == attempt
    and below(floor_epoch, floor_sequence, tonumber(lease.epoch), tonumber(lease.sequence)) then
    redis.call('PEXPIRE', lease_key, ttl)
    return 'granted ' .. lease.epoch .. ' ' .. lease.sequence
  end

  sequence = math.max(sequence + 1, clock)
  if sequence > MAX_SEQUENCE then return 'exhausted' end
  -- Lua would print a large number as 1e+14.
  local token = string.format('%d %.0f', epoch, sequence)
  redis.call('HSET', fence_key, 'incarnation', here, 'epoch', fence[2], 'sequence', string.format('%.0f', sequence))
  redis.call('PEXPIRE', fence_key, idle)
  redis.call('SET', lease_key, attempt .. ' ' .. holder .. ' ' .. here .. ' ' .. token, 'PX', ttl)
  return 'granted ' .. token
end

local replies = {here}
for i = 1, #KEYS, 2 do
  local arg = COMMON + (i - 1) / 2 * 3
  replies[#replies + 1] =
    answer(KEYS[i], KEYS[i + 1], ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]))
end
return replies
