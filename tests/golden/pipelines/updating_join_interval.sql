-- An interval join: the clicks in a shop within ten seconds after an order there.
INSERT INTO output
SELECT o.id, c.user, c.page FROM orders o JOIN clicks c ON o.shop = c.shop
  AND c.at BETWEEN o.at AND o.at + INTERVAL '10 seconds' WHERE o.amount > 400;
