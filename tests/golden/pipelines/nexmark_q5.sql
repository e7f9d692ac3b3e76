-- The auctions with most bids in the last ten seconds.
CREATE VIEW counts AS SELECT auction, count(*) AS num, hop(interval '2 seconds', interval '10 seconds') AS window FROM bid GROUP BY 1, 3;
INSERT INTO output
SELECT c.auction, c.num, c.window.start AS start FROM counts c
JOIN (SELECT max(num) AS top, window FROM counts GROUP BY window) m ON c.window = m.window AND c.num >= m.top;
