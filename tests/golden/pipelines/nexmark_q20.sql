-- Bids with their auctions, of one category.
INSERT INTO output
SELECT b.auction, b.bidder, b.price, b.channel, a.item_name, a.seller, a.expires
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10;
