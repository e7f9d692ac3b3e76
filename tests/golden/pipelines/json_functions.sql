INSERT INTO output
SELECT json_get_int(value, 'id') AS id, json_get_str(value, 'user', 'name') AS name, json_get_float(value, 'amount') AS amount,
  json_get_bool(value, 'user', 'vip') AS vip, cardinality(extract_json(value, '$.items[*].sku')) AS items,
  extract_json_string(value, '$.city') AS city, get_first_json_object(value, '$.items[0].qty') AS quantity,
  extract_json(value, '$.user.name')[1] AS quoted
FROM events;
