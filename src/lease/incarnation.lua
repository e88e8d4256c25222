-- Names this server's memory: run_id is new at every start, master_replid at every promotion. Hashed, so that a fence
-- hash stays in Redis' compact encoding. Read inside the script, because only there check and grant are one step.
local function incarnation()
  local server, replication = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'replication')
  if type(server) ~= 'string' or type(replication) ~= 'string' then return nil end
  -- Plain searches: a pattern would be tried at every position, and cost more than INFO itself.
  local _, run_id = string.find(server, 'run_id:', 1, true)
  local _, replid = string.find(replication, 'master_replid:', 1, true)
  if not run_id or not replid then return nil end
  return redis.sha1hex(string.sub(server, run_id + 1, run_id + 40) .. string.sub(replication, replid + 1, replid + 40))
end

local here = incarnation()
if not here then return redis.error_reply('NOINCARNATION INFO does not tell run_id and master_replid') end
