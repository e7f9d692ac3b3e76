-- The highest bids of every ten seconds.
CREATE VIEW windowed AS
SELECT auction, bidder, price, datetime, tumble(interval '10 seconds') AS window FROM bid GROUP BY 1, 2, 3, 4, 5;
INSERT INTO output
SELECT b.auction, b.price, b.bidder, b.datetime FROM windowed b
JOIN (SELECT max(price) AS top, window FROM windowed GROUP BY window) m ON b.window = m.window AND b.price = m.top;
