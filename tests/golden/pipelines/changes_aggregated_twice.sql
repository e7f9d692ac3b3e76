INSERT INTO changes
SELECT n, count(*) AS owners, max(total) AS richest FROM (
  SELECT owner, count(*) AS n, sum(balance) AS total FROM accounts GROUP BY owner HAVING count(*) > 1
) WHERE total IS NOT NULL GROUP BY n;
