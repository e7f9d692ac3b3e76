INSERT INTO output
SELECT shop, window.start AS started, n FROM (
  SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM (
    SELECT shop FROM orders UNION ALL SELECT shop FROM clicks) GROUP BY 1, 2);
