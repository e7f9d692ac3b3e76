-- Every pair of a window for which the inequality holds; orders without one are kept.
INSERT INTO output
SELECT a.id, a.amount, b.user, b.n FROM
  (SELECT id, amount, tumble(interval '10 seconds') AS window FROM orders WHERE amount > 400 GROUP BY 1, 2, 3) a
LEFT JOIN
  (SELECT user, tumble(interval '10 seconds') AS window, count(*) AS n FROM clicks GROUP BY 1, 2) b
ON a.window = b.window AND b.n * 150 > a.amount;
