-- Reset leases to their full ttl, where they are still their holder's. Never re-creates a key.
-- KEYS: 1 probe of the first lock, 2… locks
-- ARGV: token and ttl ms of each lock in turn
-- Reply: for each lock 1 renewed | 0 not this token's
local renewed, missed = {}, false
for i = 2, #KEYS do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and holder['err'] and not string.find(holder['err'], 'WRONGTYPE', 1, true) then
    return holder
  end
  if holder == ARGV[2 * i - 3] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2 * i - 2])
    renewed[i - 1] = 1
  else
    renewed[i - 1], missed = 0, true
  end
end
-- A write that changes nothing: a replica refuses it instead of giving a false answer.
if missed then redis.call('DEL', KEYS[1]) end
return renewed
