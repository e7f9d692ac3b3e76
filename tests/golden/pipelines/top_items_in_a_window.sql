INSERT INTO output
SELECT item, started, total, place FROM (
  SELECT item, window.start AS started, total,
         row_number() OVER (PARTITION BY window ORDER BY total DESC, item) AS place
  FROM (SELECT item, tumble(interval '30 seconds') AS window, sum(amount) AS total
        FROM orders GROUP BY item, window)
) WHERE place <= 3;
