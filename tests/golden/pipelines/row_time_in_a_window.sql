INSERT INTO output
SELECT window, n, row_time() AS at FROM (
  SELECT tumble(interval '30 seconds') AS window, count(*) AS n FROM orders GROUP BY window);
INSERT INTO output SELECT NULL AS window, id AS n, row_time() AS at FROM orders WHERE amount > 450;
