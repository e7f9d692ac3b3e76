INSERT INTO changes
SELECT page, count(DISTINCT user) AS users, count(DISTINCT shop) AS shops, count(DISTINCT user) FILTER (WHERE shop = 'shop-1') AS first_shop
FROM clicks GROUP BY page;
