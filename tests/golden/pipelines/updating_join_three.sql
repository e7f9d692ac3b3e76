INSERT INTO output
SELECT o.id, c.user, r.ride FROM orders o, clicks c, rides r
WHERE o.shop = c.shop AND o.amount = r.ride AND c.page = 'cart' AND o.id <> r.ride;
