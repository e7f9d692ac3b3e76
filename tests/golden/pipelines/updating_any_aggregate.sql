INSERT INTO changes
SELECT shop, median(amount) AS middle, count(DISTINCT item) AS items FROM orders GROUP BY shop;
