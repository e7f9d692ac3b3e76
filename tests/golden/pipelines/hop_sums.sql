INSERT INTO output
SELECT shop, window.start AS started, total FROM (
  SELECT shop, hop(interval '5 seconds', interval '15 seconds') AS window, sum(amount) AS total
  FROM orders GROUP BY shop, window);
