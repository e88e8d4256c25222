-- Reads leases, for people.
-- KEYS  lease of each SKU
-- Reply this server's incarnation, then value and remaining ms of each SKU, '' where the lease has ended meanwhile

local replies = {here}
for i = 1, #KEYS do
  replies[#replies + 1] = redis.call('GET', KEYS[i]) or ''
  replies[#replies + 1] = redis.call('PTTL', KEYS[i])
end
return replies
