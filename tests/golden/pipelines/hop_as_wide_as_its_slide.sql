INSERT INTO output
SELECT driver, hop(interval '15 seconds', interval '15 seconds') AS window, count(*) AS n FROM rides GROUP BY driver, 2;
