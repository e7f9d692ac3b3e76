-- Prices in another currency.
INSERT INTO output SELECT auction, bidder, 0.908 * price AS price, datetime FROM bid;
