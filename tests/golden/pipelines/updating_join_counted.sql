-- A window over a join: a pair has the later of its two times.
INSERT INTO output
SELECT c.user, tumble(interval '20 seconds') AS window, count(*) AS pairs FROM orders o
JOIN clicks c ON o.shop = c.shop AND o.item = 'item-' || substr(c.user, 6) GROUP BY c.user, 2;
