INSERT INTO output
SELECT tag, tumble(interval '30 seconds') AS window, count(*) AS n FROM (SELECT unnest(tags) AS tag FROM orders) GROUP BY 1, 2;
