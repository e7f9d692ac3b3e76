INSERT INTO changes
SELECT o.item, count(*) AS pairs, max(c.at) AS newest FROM orders o JOIN clicks c ON o.shop = c.shop
WHERE o.amount > 400 GROUP BY o.item;
