CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT id, upper(item) AS item, amount * 2 AS doubled, coalesce(shop, 'none') AS shop FROM orders WHERE amount > 250;
