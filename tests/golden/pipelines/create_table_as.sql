CREATE TABLE cheap AS SELECT id, shop, amount, at FROM orders WHERE amount < 200;
CREATE VIEW per_shop AS SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM cheap GROUP BY 1, 2;
INSERT INTO output SELECT shop, window, n FROM per_shop WHERE n > 1;
