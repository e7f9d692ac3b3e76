INSERT INTO output
SELECT a.window.start AS start, a.n AS orders, b.n AS clicks, c.n AS rides FROM
  (SELECT tumble(interval '15 seconds') AS window, count(*) AS n FROM orders GROUP BY 1) a
JOIN (SELECT tumble(interval '15 seconds') AS window, count(*) AS n FROM clicks GROUP BY 1) b ON a.window = b.window
LEFT JOIN (SELECT tumble(interval '15 seconds') AS window, count(*) AS n FROM rides WHERE city = 'Lima' GROUP BY 1) c ON b.window = c.window;
