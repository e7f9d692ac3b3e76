INSERT INTO output
SELECT shop, window.start AS started, middle, spread, items FROM (
  SELECT shop, tumble(interval '20 seconds') AS window, median(amount) AS middle,
         stddev(price) AS spread, count(DISTINCT item) AS items
  FROM orders GROUP BY shop, window);
