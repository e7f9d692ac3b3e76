-- rows_per_batch: 60
INSERT INTO output SELECT tumble(interval '30 seconds') AS window, count(*) AS n, min(ride) AS first, max(ride) AS last FROM late_rides GROUP BY 1;
