-- An aggregate of a join of windows, in the same window again.
INSERT INTO output
SELECT a.window AS window, count(*) AS shops, sum(a.n * b.n) AS pairs FROM
  (SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY 1, 2) a
JOIN (SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM clicks GROUP BY 1, 2) b
ON a.shop = b.shop AND a.window = b.window GROUP BY a.window;
