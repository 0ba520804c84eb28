-- Try, join, poll or adopt a lock: one script for all. Safe to run twice with the same token.
-- KEYS: 1 lock, 2 fence, 3 queue, 4 waiters, 5 turn, 6 tombstone of the token, 7 probe
-- ARGV: 1 token, 2 ttl ms, 3 fence retention ms, 4 try|join|adopt, 5 score or '', 6 inbox,
--       7 life of the siblings ms, 8 token to adopt from or '', 9 '1' to read all keys in any case, or nothing
-- Reply: { 1 granted | 0 busy | -1 abandoned, ms left or -1, rank or -1, score or '', fence or '' }
local token, mode = ARGV[1], ARGV[4]
local failure
local function read(role, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply['err'] then
    if not failure then
      -- The command is named, because not every server names one that is denied.
      failure = { err = reply['err'] .. ' [' .. (...) .. ']' }
      if string.find(reply['err'], 'WRONGTYPE', 1, true) then failure = { err = 'KEYTYPE ' .. role } end
    end
    return false
  end
  return reply
end

local last = read('fence', 'GET', KEYS[2])
local gone, holder, score, inbox, turn
-- Nobody holds it and nobody waits, as for most locks at most times: one read instead of five.
if ARGV[9] == '1' or read('lock', 'EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) ~= 0 then
  gone = read('tombstone', 'EXISTS', KEYS[6])
  holder = read('lock', 'GET', KEYS[1])
  score = read('queue', 'ZSCORE', KEYS[3], token)
  inbox = read('waiters', 'HGET', KEYS[4], token)
  turn = read('turn', 'GET', KEYS[5])
end
if failure then return failure end
-- Lua's numbers count exactly up to 2^53 = 9007199254740992; TIME in microseconds stays below it until 2255.
if last and not (string.find(last, '^%d+$') and #last <= 16 and tonumber(last) < 9007199254740991) then
  return { err = 'KEYTYPE fence' }
end
local due, turn_token, turn_inbox
if turn then
  due, turn_token, turn_inbox = string.match(turn, '^(%d+) (%S+) (%S+)$')
  if not due then return { err = 'KEYTYPE turn' } end
  due = tonumber(due)
end

if gone == 1 then
  redis.call('DEL', KEYS[7])
  return { -1, -1, -1, '', '' }
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local granted, left = false, -1
if holder == token then
  granted = true
elseif mode == 'adopt' then
  granted = holder and holder == ARGV[8]
elseif holder then
  left = redis.call('PTTL', KEYS[1])
  if turn_token == token then redis.call('DEL', KEYS[5]) end
elseif not turn or turn_token == token then
  granted = true
elseif now < due then
  left = math.ceil((due - now) / 1000)
else
  -- The inbox whose turn fell due did not answer: its waiters re-join at their next poll, if they live.
  granted = true
  local drop = { turn_token }
  if turn_inbox ~= '-' then
    local all = redis.call('HGETALL', KEYS[4])
    for i = 1, #all, 2 do
      if all[i + 1] == turn_inbox then drop[#drop + 1] = all[i] end
    end
  end
  redis.call('DEL', KEYS[5])
  for i = 1, #drop, 1000 do
    local last_of_part = math.min(i + 999, #drop)
    redis.call('ZREM', KEYS[3], unpack(drop, i, last_of_part))
    redis.call('HDEL', KEYS[4], unpack(drop, i, last_of_part))
  end
end

if granted then
  redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
  if turn_token == token then redis.call('DEL', KEYS[5]) end
  if score then redis.call('ZREM', KEYS[3], token) end
  if inbox then redis.call('HDEL', KEYS[4], token) end
  local fence = string.format('%.0f', math.max((tonumber(last or 0)) + 1, now))
  redis.call('SET', KEYS[2], fence, 'PX', ARGV[3])
  return { 1, -1, -1, '', fence }
end
if mode ~= 'join' then
  -- A write that changes nothing: a replica refuses it instead of giving a false answer.
  redis.call('DEL', KEYS[7])
  return { 0, left, -1, '', '' }
end
score = string.format('%.0f', tonumber(score or '') or tonumber(ARGV[5]) or now)
redis.call('ZADD', KEYS[3], score, token)
redis.call('HSET', KEYS[4], token, ARGV[6])
redis.call('PEXPIRE', KEYS[3], ARGV[7])
redis.call('PEXPIRE', KEYS[4], ARGV[7])
return { 0, left, redis.call('ZRANK', KEYS[3], token), score, '' }
