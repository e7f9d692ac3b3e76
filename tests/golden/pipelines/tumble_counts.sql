INSERT INTO output
SELECT shop, window.start AS started, window.end AS ended, orders, total, smallest, largest, average FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders, sum(amount) AS total,
         min(amount) AS smallest, max(amount) AS largest, avg(amount) AS average
  FROM orders GROUP BY 1, 2);
