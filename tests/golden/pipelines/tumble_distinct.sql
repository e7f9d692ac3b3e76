-- DISTINCT inside a window keeps nothing beyond it.
INSERT INTO output
SELECT DISTINCT window, n FROM (
  SELECT driver, tumble(interval '20 seconds') AS window, count(*) AS n FROM rides GROUP BY 1, 2);
