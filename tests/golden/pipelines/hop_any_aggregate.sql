INSERT INTO output
SELECT city, window.start AS start, window.end AS end, middle, drivers FROM (
  SELECT city, hop(interval '10 seconds', interval '30 seconds') AS window, median(fare) AS middle,
    count(DISTINCT driver) AS drivers
  FROM rides GROUP BY city, window);
