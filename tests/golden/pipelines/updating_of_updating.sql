INSERT INTO changes
SELECT n, count(*) AS items FROM (SELECT item, count(*) AS n FROM orders GROUP BY item) GROUP BY n;
