INSERT INTO output
SELECT (value -> 'id')::BIGINT AS id, value -> 'user' ->> 'name' AS name, (value -> 'user' -> 'vip')::BOOLEAN AS vip,
  value -> 'items' -> 0 ->> 'sku' AS first_sku, value ? 'gift' AS is_gift, value -> 'gift' ->> 'text' AS wish,
  (value ->> 'amount')::DOUBLE AS amount, value ->> 'nothing' AS nothing
FROM events WHERE value ->> 'type' = 'order';
