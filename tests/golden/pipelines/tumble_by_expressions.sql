INSERT INTO output
SELECT amount % 3 AS rest, lower(shop) || '!' AS shop, tumble(interval '30 seconds') AS window, sum(amount * price) AS value,
  count(*) * 2 AS doubled
FROM orders GROUP BY amount % 3, lower(shop) || '!', window;
