-- Installs counters after a recovery. rules.rs is the specification: rules::seed.
-- KEYS  fence of each SKU
-- ARGV  idle time of a fence in ms; then for each SKU: the incarnation that the seed is for, the epoch
-- Reply this server's incarnation, then a line for each SKU

local COMMON = 1

local function install(key, meant_for, epoch)
  if meant_for ~= here then return 'refused' end
  local fence = redis.pcall('HMGET', key, 'incarnation', 'epoch', 'sequence')
  -- A key of another type would stand in the way for ever.
  if fence.err then redis.call('DEL', key) end
  local known = tonumber(fence[2] or '')
  -- Half a hash is none, as for acquire.lua.
  if fence[1] == here and known and tonumber(fence[3] or '') and known >= tonumber(epoch) then return 'kept' end
  redis.call('HSET', key, 'incarnation', here, 'epoch', epoch, 'sequence', '0')
  redis.call('PEXPIRE', key, ARGV[1])
  return 'installed'
end

local replies = {here}
for i = 1, #KEYS do
  local arg = COMMON + (i - 1) * 2
  replies[#replies + 1] = install(KEYS[i], ARGV[arg + 1], ARGV[arg + 2])
end
return replies
