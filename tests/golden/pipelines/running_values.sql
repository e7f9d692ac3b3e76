INSERT INTO output
SELECT item, window, total, lag(total) OVER (PARTITION BY window ORDER BY total, item) AS below,
  sum(total) OVER (PARTITION BY window ORDER BY total, item) AS running,
  total * 100 / sum(total) OVER (PARTITION BY window) AS share
FROM (SELECT item, hop(interval '20 seconds', interval '40 seconds') AS window, sum(amount) AS total FROM orders GROUP BY 1, 2)
QUALIFY row_number() OVER (PARTITION BY window ORDER BY total, item) <= 4;
