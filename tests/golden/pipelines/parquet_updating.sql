INSERT INTO changes SELECT shop, count(*) AS n, string_agg(item, ',' ORDER BY id) AS items FROM orders_in_files GROUP BY shop;
