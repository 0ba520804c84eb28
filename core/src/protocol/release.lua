-- Release a lock, or give up a wait for it. Safe to run twice with the same token.
-- KEYS: 1 lock, 2 fence, 3 queue, 4 waiters, 5 turn, 6 tombstone of the token, 7 probe
-- ARGV: 1 token, 2 life of the tombstone ms or 0, 3 turn ms, 4 life of the siblings ms,
--       5 '1' when PUBSUB NUMSUB counts all subscribers, '0' when only this node's,
--       6 '1' to look at all keys in any case, or nothing
-- Reply: { 1 released | 0 not this token's, 1 when a waiter was woken, 1 when publishing was denied,
--          role of a key with foreign data or '' }
local token = ARGV[1]
local damaged = ''
local function call(role, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply['err'] then
    -- The command is named, because not every server names one that is denied.
    if not string.find(reply['err'], 'WRONGTYPE', 1, true) then
      return nil, { err = reply['err'] .. ' [' .. (...) .. ']' }
    end
    if damaged == '' then damaged = role end
    return false
  end
  return reply
end

local holder, failure = call('lock', 'GET', KEYS[1])
if failure then return failure end
local foreign = damaged ~= ''
if holder == token and ARGV[2] == '0' and ARGV[6] ~= '1' then
  -- Nobody waits, as for most locks at most times: one read instead of three reads and two writes.
  local others = redis.pcall('EXISTS', KEYS[3], KEYS[4], KEYS[5])
  if others == 0 then
    redis.call('DEL', KEYS[1])
    return { 1, 0, 0, '' }
  end
end
local turn
turn, failure = call('turn', 'GET', KEYS[5])
if failure then return failure end
local turn_token
if turn then
  turn_token = string.match(turn, '^%d+ (%S+) %S+$')
  if not turn_token and damaged == '' then damaged = 'turn' end
end

-- These come before the tombstone: a server at its memory limit refuses SET, but not to a script that has written.
local _
_, failure = call('queue', 'ZREM', KEYS[3], token)
if failure then return failure end
_, failure = call('waiters', 'HDEL', KEYS[4], token)
if failure then return failure end
if tonumber(ARGV[2]) > 0 then redis.call('SET', KEYS[6], '1', 'PX', ARGV[2]) end

local released, pass = 0, false
if holder == token then
  redis.call('DEL', KEYS[1])
  released, pass = 1, true
end
if turn_token == token then
  redis.call('DEL', KEYS[5])
  pass = pass or not (holder or foreign)
end
if not pass or damaged ~= '' then return { released, 0, 0, damaged } end

local woken, denied = 0, 0
for _ = 1, 256 do
  local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if not first then break end
  local inbox = redis.call('HGET', KEYS[4], first) or '-'
  redis.call('ZREM', KEYS[3], first)
  redis.call('HDEL', KEYS[4], first)
  local live = true
  if inbox ~= '-' and ARGV[5] == '1' then
    local count = redis.pcall('PUBSUB', 'NUMSUB', inbox)
    live = count['err'] or tonumber(count[2]) > 0
  end
  if live then
    local time = redis.call('TIME')
    local due = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[3] * 1000)
    redis.call('SET', KEYS[5], due .. ' ' .. first .. ' ' .. inbox, 'PX', ARGV[4])
    if inbox ~= '-' then
      local sent = redis.pcall('PUBLISH', inbox, first)
      if type(sent) == 'table' and sent['err'] then denied = 1 else woken = 1 end
    end
    break
  end
end
return { released, woken, denied, '' }
