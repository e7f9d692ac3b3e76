-- The winning bid of every auction: the highest, and of equal ones the first.
INSERT INTO changes
SELECT a.id AS id, a.item_name AS item, a.seller AS seller, max(b.price) AS price,
  max_by(b.bidder, named_struct('price', b.price, 'before', -unix_micros(b.datetime))) AS bidder
FROM auction a JOIN bid b ON a.id = b.auction AND b.datetime BETWEEN a.datetime AND a.expires GROUP BY a.id, a.item_name, a.seller;
