INSERT INTO output SELECT driver, status, tumble(interval '20 seconds') AS window FROM rides GROUP BY driver, status, window;
