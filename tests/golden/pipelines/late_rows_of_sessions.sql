-- rows_per_batch: 60
INSERT INTO output SELECT driver, session(interval '5 seconds') AS window, count(*) AS n FROM late_rides GROUP BY driver, window;
