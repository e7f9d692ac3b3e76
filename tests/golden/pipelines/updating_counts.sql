INSERT INTO changes
SELECT shop, count(*) AS orders, sum(amount) AS total, max(amount) AS largest, avg(price) AS price FROM orders GROUP BY shop;
