-- Compare-and-delete of the lock key alone, where a migrating slot refuses scripts over several keys.
-- KEYS: 1 lock; ARGV: 1 token; Reply: 1 deleted | 0 not this token's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
