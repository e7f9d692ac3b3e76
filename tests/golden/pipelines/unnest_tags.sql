INSERT INTO output
SELECT id, unnest(tags) AS tag FROM orders;
