INSERT INTO output
SELECT what, window, n FROM (
  SELECT 'orders' AS what, tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY 2
  UNION ALL SELECT 'rides', tumble(interval '20 seconds') AS window, count(*) AS n FROM rides GROUP BY 2
);
