-- The same under retraction: every update takes a row back.
INSERT INTO changes
SELECT city, count(*) AS accounts, count(balance) AS known, sum(balance) AS total, sum(score) AS scores,
  avg(balance) AS mean, avg(score) AS mean_score, min(balance) AS least, max(balance) AS most, min(owner) AS owner,
  bool_and(active) AS all_active, bool_or(active) AS some_active,
  bit_and(balance) AS in_all, bit_or(balance) AS in_some, bit_xor(balance) AS odd, max(seen) AS newest
FROM accounts GROUP BY city;
