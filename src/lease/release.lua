-- Deletes the leases that are still this attempt's. rules.rs is the specification: rules::release.
-- KEYS  lease of each SKU
-- ARGV  attempt
-- Reply how many were deleted

local mine = ARGV[1] .. ' '
local deleted = 0
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'string' and string.sub(value, 1, #mine) == mine then deleted = deleted + redis.call('DEL', KEYS[i]) end
end
return deleted
