INSERT INTO output
SELECT item, tumble(interval '20 seconds') AS window, count(*) AS n, sum(amount) AS total FROM (
  SELECT item, amount, at FROM orders WHERE shop IS NOT NULL
) GROUP BY item, window HAVING count(*) > 1 AND sum(amount) > 400;
