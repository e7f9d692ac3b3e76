INSERT INTO output
SELECT city, area, tumble(interval '20 seconds') AS window, count(*) AS n FROM (
  SELECT s.city AS city, s.area AS area FROM orders o LEFT JOIN shops s ON o.shop = s.shop
) GROUP BY 1, 2, 3;
