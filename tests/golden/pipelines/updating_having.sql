-- compare: changes
CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'debezium_json', type = 'sink'
);

INSERT INTO output
SELECT item, count(*) AS n FROM orders GROUP BY item HAVING count(*) % 3 <> 0;
