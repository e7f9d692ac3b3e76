-- udfs: functions.py
INSERT INTO output SELECT fare_class(fare) AS class, tumble(interval '20 seconds') AS window, count(*) AS n FROM rides GROUP BY 1, 2;
