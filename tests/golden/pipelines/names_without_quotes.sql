-- Words of SQL as column names; names of tables in any case; == for =; subqueries without an alias.
CREATE VIEW words AS
SELECT id AS key, item AS value, amount AS count, price AS sum, shop AS user, at AS timestamp, tags AS rows FROM Orders;
INSERT INTO OUTPUT
SELECT key, value, count, sum, user, timestamp AS start, timestamp AS end, count AS offset, sum AS partition, count AS min, sum AS max
FROM (SELECT * FROM (SELECT * FROM WORDS)) WHERE user == 'shop-1';
