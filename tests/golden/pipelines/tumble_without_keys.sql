INSERT INTO output
SELECT window.start AS started, n FROM (
  SELECT tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY window);
