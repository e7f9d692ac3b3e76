CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT item, started, total, place FROM (
  SELECT item, window.start AS started, total,
         row_number() OVER (PARTITION BY window ORDER BY total DESC, item) AS place
  FROM (SELECT item, tumble(interval '30 seconds') AS window, sum(amount) AS total
        FROM orders GROUP BY item, window)
) WHERE place <= 3;
