INSERT INTO changes
SELECT s.area AS area, count(*) AS n, sum(o.amount) AS total FROM orders o LEFT JOIN shops s ON o.shop = s.shop GROUP BY s.area;
