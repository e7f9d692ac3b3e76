-- Literals as people who know Spark write them.
CREATE TABLE items (item TEXT, price BIGINT, channel TEXT) WITH (connector = 'single_file', path = 'items.json', format = 'json', type = 'source');
SELECT price * 2L AS twice, 2.5D AS d, -1S AS s, 3 L, regexp_replace(channel, r'\d+', '\d') AS c FROM items;
