-- A JSON column is text: `->` gives JSON text, `->>` the value as text.
-- What is not there is JSON's null after `->` and SQL's after `->>`.
j -> 'a'                       => coalesce(to_json(variant_get(try_parse_json(j), '$.a')), 'null')
j ->> 'a'                      => get_json_object(j, '$.a')
j -> 'a' -> 'b' ->> 'c'        => get_json_object(j, '$.a.b.c')
j -> 'l' -> 0                  => coalesce(to_json(variant_get(try_parse_json(j), '$.l[0]')), 'null')
j ->> 'odd key'                => get_json_object(j, '$[\'odd key\']')
j ->> k                        => get_json_object(j, concat('$[\'', CAST(k AS STRING), '\']'))
-- What is cast or compared is the value.
(j -> 'n')::int                => CAST((get_json_object(j, '$.n')) AS INT)
j -> 's' = 'x'                 => get_json_object(j, '$.s') = 'x'
j -> 'a' IS NULL               => get_json_object(j, '$.a') IS NULL
(j -> 'n') + 1                 => (get_json_object(j, '$.n')) + 1
j ? 'k'                        => coalesce(array_contains(json_object_keys(j), 'k'), FALSE)
json_get(j, 'a', 1, 'b')       => coalesce(to_json(variant_get(try_parse_json(j), '$.a[1].b')), 'null')
json_get_json(j, 'a')          => to_json(variant_get(try_parse_json(j), '$.a'))
json_get_int(j, 'a')           => TRY_CAST(get_json_object(j, '$.a') AS BIGINT)
json_get_str(j, 'a')           => TRY_CAST(get_json_object(j, '$.a') AS STRING)
json_as_text(j, 'a')           => get_json_object(j, '$.a')
json_length(j)                 => json_array_length(j)
'{}'::json                     => CAST('{}' AS STRING)
coalesce(j -> 'a', 'z')        => coalesce(to_json(variant_get(try_parse_json(j), '$.a')), 'z')
