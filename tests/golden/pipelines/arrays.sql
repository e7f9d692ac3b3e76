INSERT INTO output
SELECT id, tags[1] AS first, array_length(tags) AS n, array_has(tags, 'sale') AS on_sale, array_to_string(tags, '+') AS joined,
  make_array(shop, item) AS pair, tags[1:1] AS head
FROM orders;
