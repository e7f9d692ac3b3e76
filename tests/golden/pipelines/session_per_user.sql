INSERT INTO output
SELECT user, window.start AS started, window.end AS ended, clicks FROM (
  SELECT user, session(interval '4 seconds') AS window, count(*) AS clicks
  FROM clicks GROUP BY user, window);
