CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT window.start AS started, cheap, dear FROM (
  SELECT tumble(interval '10 seconds') AS window,
         count(*) FILTER (WHERE amount < 100) AS cheap, sum(amount) FILTER (WHERE amount >= 400) AS dear
  FROM orders GROUP BY window);
