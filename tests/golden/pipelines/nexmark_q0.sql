-- Pass through.
INSERT INTO output SELECT auction, bidder, price, datetime, extra FROM bid;
