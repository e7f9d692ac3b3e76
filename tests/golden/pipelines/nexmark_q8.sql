-- People who are new and sell within the same ten seconds.
INSERT INTO output
SELECT p.id, p.name, p.window.start AS start
FROM (SELECT id, name, tumble(interval '10 seconds') AS window FROM person GROUP BY 1, 2, 3) p
JOIN (SELECT seller, tumble(interval '10 seconds') AS window FROM auction GROUP BY 1, 2) a ON p.id = a.seller AND p.window = a.window;
