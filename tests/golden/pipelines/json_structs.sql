-- The same JSON with a schema: structs, and arrays of structs unnested.
CREATE TABLE typed_events (
  id BIGINT, user STRUCT<name TEXT, vip BOOLEAN>, items STRUCT<sku TEXT, qty INT>[], city TEXT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/events.json', format = 'json', type = 'source');
INSERT INTO output
SELECT name, item.sku AS sku, tumble(interval '30 seconds') AS window, sum(item.qty) AS quantity FROM (
  SELECT user.name AS name, unnest(items) AS item FROM typed_events
) GROUP BY 1, 2, 3;
