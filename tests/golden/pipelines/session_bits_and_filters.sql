INSERT INTO output
SELECT driver, session(interval '7 seconds') AS window, bit_or(flags) AS flags, sum(fare) FILTER (WHERE seats > 1) AS shared,
  avg(distance) AS distance, bool_or(pooled) AS pooled
FROM rides WHERE ride < 160 GROUP BY driver, window;
