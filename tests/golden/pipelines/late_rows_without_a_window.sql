-- Without a window no row is late.
-- rows_per_batch: 60
INSERT INTO changes SELECT driver, count(*) AS n, min(at) AS first FROM late_rides GROUP BY driver;
