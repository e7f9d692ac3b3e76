-- Conditions above an updating aggregate, as WHERE and as HAVING.
INSERT INTO changes
SELECT shop, n * 10 AS tens FROM (
  SELECT shop, count(*) AS n, max(price) AS dearest FROM orders GROUP BY shop HAVING max(price) > 20
) WHERE n % 2 = 0;
