-- Deletes the leases that are still this attempt's. rules.rs is the specification: rules::release.
-- KEYS  lease of each SKU
-- ARGV  attempt
-- Reply how many were deleted

local signature = ARGV[1] .. ' '
local mine = {}
for i, lease in ipairs(redis.call('MGET', unpack(KEYS))) do
  if lease and string.sub(lease, 1, #signature) == signature then mine[#mine + 1] = KEYS[i] end
end
return #mine > 0 and redis.call('DEL', unpack(mine)) or 0
