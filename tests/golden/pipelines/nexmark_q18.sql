-- The last bid of a person on an auction.
INSERT INTO changes
SELECT bidder, auction, last_value(price) AS price, last_value(channel) AS channel, max(datetime) AS at FROM bid GROUP BY bidder, auction;
