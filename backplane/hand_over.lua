-- Changes the owner of a claim for the rest of its time.
-- KEYS[1]  the claim
-- ARGV[1]  who must have it
-- ARGV[2]  who gets it
-- Returns 1 if it has changed hands, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
