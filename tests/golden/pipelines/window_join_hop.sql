INSERT INTO output
SELECT a.shop, a.window.end AS end, a.total, b.users FROM
  (SELECT shop, hop(interval '10 seconds', interval '20 seconds') AS window, sum(amount) AS total FROM orders GROUP BY 1, 2) a
JOIN
  (SELECT shop, hop(interval '10 seconds', interval '20 seconds') AS window, count(DISTINCT user) AS users FROM clicks GROUP BY 1, 2) b
USING (shop, window)
WHERE a.total > b.users * 100;
