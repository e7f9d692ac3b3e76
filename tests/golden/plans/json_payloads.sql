-- JSON payloads without a schema, with a generated event time.
CREATE TABLE events (
  value JSON, at TIMESTAMP GENERATED ALWAYS AS (to_timestamp(value ->> 'time')) STORED,
  WATERMARK FOR at AS at - INTERVAL '1 minute'
) WITH (connector = 'single_file', path = 'events.json', format = 'json', 'json.unstructured' = 'true', type = 'source');
SELECT value -> 'user' ->> 'name' AS name, (value -> 'amount')::DOUBLE AS amount, value ? 'gift' AS is_gift,
  extract_json(value, '$.items[*].id') AS items
FROM events WHERE value ->> 'type' = 'order';
