-- The outer aggregate calls the window of the inner one again.
INSERT INTO output
SELECT hop(interval '10 seconds', interval '20 seconds') AS window, max(n) AS busiest, sum(n) AS rides FROM (
  SELECT driver, count(*) AS n FROM rides GROUP BY driver, hop(interval '10 seconds', interval '20 seconds')
) GROUP BY 1;
