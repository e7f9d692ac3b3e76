-- udfs: functions.py
INSERT INTO output
SELECT city, tumble(interval '20 seconds') AS window, spread(distance) AS spread, weighted(fare, seats) AS weighted,
  spread(distance) FILTER (WHERE seats > 1) AS shared, count(*) AS n
FROM rides GROUP BY city, window;
