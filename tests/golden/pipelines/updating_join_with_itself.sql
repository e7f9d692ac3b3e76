INSERT INTO output
SELECT a.id AS a, b.id AS b, item FROM orders a JOIN orders b USING (shop, item) WHERE a.id < b.id AND b.at > a.at + INTERVAL '60 seconds';
