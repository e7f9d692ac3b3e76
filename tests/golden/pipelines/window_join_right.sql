INSERT INTO output
SELECT a.shop AS shop, b.shop AS other, a.orders, b.clicks, b.window AS window FROM
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders FROM orders WHERE amount > 300 GROUP BY 1, 2) a
RIGHT JOIN
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS clicks FROM clicks GROUP BY 1, 2) b
ON a.shop = b.shop;
