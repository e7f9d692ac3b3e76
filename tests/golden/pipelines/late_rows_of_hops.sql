-- rows_per_batch: 60
INSERT INTO output
SELECT driver, hop(interval '10 seconds', interval '20 seconds') AS window, count(DISTINCT ride) AS n FROM late_rides GROUP BY 1, 2;
