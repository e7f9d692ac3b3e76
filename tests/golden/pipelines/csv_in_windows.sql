INSERT INTO output
SELECT sensor, tumble(interval '20 seconds') AS window, avg(celsius) AS mean, max(volts) - min(volts) AS spread,
  count(*) FILTER (WHERE note LIKE '%"%') AS quoted
FROM readings GROUP BY sensor, window;
