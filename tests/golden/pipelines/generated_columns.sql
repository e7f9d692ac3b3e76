CREATE TABLE priced (
  id BIGINT, amount BIGINT, price DOUBLE, at TIMESTAMP,
  value DOUBLE GENERATED ALWAYS AS (amount * price) STORED,
  day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
  moment TIMESTAMP GENERATED ALWAYS AS (at + INTERVAL '1 hour') STORED,
  WATERMARK FOR moment AS moment - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');
INSERT INTO output
SELECT day, tumble(interval '15 seconds') AS window, sum(value) AS value, max(id) AS last FROM priced GROUP BY day, window;
