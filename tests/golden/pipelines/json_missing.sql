-- What is not there is JSON's null after `->`, SQL's after `->>`, and the value where a value is wanted.
CREATE TABLE typed (id BIGINT, city TEXT, amount DOUBLE, nothing BIGINT, gift TEXT) WITH (
  connector = 'single_file', path = '$output_dir/typed.json', format = 'json', type = 'sink'
);
INSERT INTO output
SELECT (value -> 'id')::BIGINT AS id, value -> 'gift' AS gift, value -> 'user' -> 'name' AS user, value ->> 'gift' AS gift_text,
  value -> 'nothing' AS nothing, value ->> 'nothing' AS no_text, coalesce(value -> 'nothing', 'none') AS instead,
  value -> 'gift' IS NULL AS is_plain, json_get_json(value, 'nothing') AS no_json, value -> 'city' AS city
FROM events;
INSERT INTO typed SELECT value -> 'id', value -> 'city', value -> 'amount', value -> 'nothing', value -> 'gift' FROM events;
