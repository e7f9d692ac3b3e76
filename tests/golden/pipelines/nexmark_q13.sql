-- Bids with the values of a table at the side.
INSERT INTO output
SELECT b.auction, b.bidder, b.price, b.datetime, s.value FROM bid b JOIN side s ON mod(b.auction, 100) = s.key;
