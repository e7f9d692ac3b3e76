INSERT INTO output
SELECT id, upper(item) AS item, amount * 2 AS doubled, coalesce(shop, 'none') AS shop FROM orders WHERE amount > 250;
