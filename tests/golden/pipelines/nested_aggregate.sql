INSERT INTO output
SELECT window.start AS started, busiest, shops FROM (
  SELECT window, max(n) AS busiest, count(*) AS shops FROM (
    SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY 1, 2)
  GROUP BY window);
