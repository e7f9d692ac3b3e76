INSERT INTO changes
SELECT item, count(*) AS n FROM orders GROUP BY item HAVING count(*) % 3 <> 0;
