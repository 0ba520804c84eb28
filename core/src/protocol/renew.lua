-- Reset leases to their full ttl, where they are still their holder's. Never re-creates a key.
-- KEYS: locks, then the probe of the first one; without the probe on a slot that is being migrated
-- ARGV: token and ttl ms of each lock in turn
-- Reply: for each lock 1 renewed | 0 not this token's
local locks = #ARGV / 2
local renewed, missed = {}, false
for i = 1, locks do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and holder['err'] and not string.find(holder['err'], 'WRONGTYPE', 1, true) then
    return { err = holder['err'] .. ' [GET]' }
  end
  if holder == ARGV[2 * i - 1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])
    renewed[i] = 1
  else
    renewed[i], missed = 0, true
  end
end
-- A write that changes nothing: a replica refuses it instead of giving a false answer.
if missed and KEYS[locks + 1] then redis.call('DEL', KEYS[locks + 1]) end
return renewed
