-- Names this server's memory: run_id is new at every start, master_replid at every promotion. Hashed, so that a fence
-- hash stays in Redis' compact encoding. Read inside the script, because only there check and grant are one step.
local function incarnation()
  local server = redis.pcall('INFO', 'server')
  local replication = redis.pcall('INFO', 'replication')
  if type(server) ~= 'string' or type(replication) ~= 'string' then return nil end
  local run_id = string.match(server, 'run_id:(%w+)')
  local replid = string.match(replication, 'master_replid:(%w+)')
  if not run_id or not replid then return nil end
  return redis.sha1hex(run_id .. ' ' .. replid)
end

local here = incarnation()
if not here then return redis.error_reply('NOINCARNATION INFO does not tell run_id and master_replid') end
