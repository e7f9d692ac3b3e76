INSERT INTO output
SELECT a.shop AS shop, b.shop AS other, a.orders, b.clicks FROM
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders
   FROM orders WHERE amount > 200 GROUP BY 1, 2) a
LEFT JOIN
  (SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS clicks
   FROM clicks WHERE page = 'cart' GROUP BY 1, 2) b
ON a.shop = b.shop AND a.window = b.window;
