INSERT INTO output
WITH dear AS (SELECT shop, amount FROM orders WHERE amount > 250),
  per_shop (name, window, n) AS (SELECT shop, tumble(interval '20 seconds'), count(*) FROM dear GROUP BY 1, 2)
SELECT name, window.start AS start, n FROM per_shop WHERE name IS NOT NULL;
