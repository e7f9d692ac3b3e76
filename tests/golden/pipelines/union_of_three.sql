INSERT INTO changes
SELECT what, count(*) AS n, max(at) AS newest FROM (
  SELECT 'order' AS what, at FROM orders UNION ALL SELECT 'click', at FROM clicks UNION ALL SELECT status, at FROM rides
) GROUP BY what;
