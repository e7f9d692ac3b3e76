INSERT INTO output
SELECT o.id, c.user FROM orders o JOIN clicks c ON o.shop = c.shop WHERE o.amount > 450 AND c.page = 'cart';
