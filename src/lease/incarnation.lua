-- Names this server's memory: run_id is new at every start, master_replid at every promotion. Hashed, so that a fence
-- hash stays in Redis' compact encoding. Read inside the script, because only there check and grant are one step.
local function field(section, name)
  local info = redis.pcall('INFO', section)
  if type(info) ~= 'string' then return nil end
  -- A plain search: a pattern would try every position, and cost more than INFO itself.
  local _, last = string.find(info, name, 1, true)
  return last and string.match(info, '^%w+', last + 1)
end

local function incarnation()
  local run_id, replid = field('server', 'run_id:'), field('replication', 'master_replid:')
  return run_id and replid and redis.sha1hex(run_id .. ' ' .. replid)
end

local here = incarnation()
if not here then return redis.error_reply('NOINCARNATION INFO does not tell run_id and master_replid') end
