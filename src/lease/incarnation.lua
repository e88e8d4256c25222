-- Names this server's memory: run_id is new at every start, master_replid at every promotion. Half of each, 80 random bits,
-- so that a fence hash stays in Redis' compact encoding. Read inside the script, because only there check and grant are one
-- step; and by one INFO, which is the largest part of what a single lease costs.
local function incarnation()
  local info = redis.pcall('INFO', 'server', 'replication')
  if type(info) ~= 'string' then return nil end
  -- Plain searches: a pattern would be tried at every position, and cost more than INFO itself.
  local _, run_id = string.find(info, '\nrun_id:', 1, true)
  local _, replid = string.find(info, '\nmaster_replid:', 1, true)
  if not run_id or not replid then return nil end
  return string.sub(info, run_id + 1, run_id + 20) .. string.sub(info, replid + 1, replid + 20)
end

local here = incarnation()
if not here then return redis.error_reply('NOINCARNATION INFO does not tell run_id and master_replid') end
