INSERT INTO output
SELECT window.start AS started, cheap, dear FROM (
  SELECT tumble(interval '10 seconds') AS window,
         count(*) FILTER (WHERE amount < 100) AS cheap, sum(amount) FILTER (WHERE amount >= 400) AS dear
  FROM orders GROUP BY window);
