-- Bids on some auctions.
INSERT INTO output SELECT auction, price FROM bid WHERE auction % 123 = 0;
