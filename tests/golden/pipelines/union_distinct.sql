INSERT INTO output SELECT shop FROM orders UNION SELECT shop FROM clicks;
