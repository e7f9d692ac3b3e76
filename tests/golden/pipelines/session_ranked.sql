-- The window of a session is carried along: first into a rank, then into an aggregate.
INSERT INTO output
SELECT shop, window, n, rank() OVER (PARTITION BY window, shop ORDER BY n DESC) AS place FROM (
  SELECT shop, session(interval '2 seconds') AS window, count(*) AS n FROM clicks GROUP BY shop, window);
