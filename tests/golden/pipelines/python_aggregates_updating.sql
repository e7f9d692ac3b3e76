-- udfs: functions.py
INSERT INTO changes SELECT city, spread(score) AS spread, count(*) AS n FROM accounts GROUP BY city;
