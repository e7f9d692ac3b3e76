-- Without a wildcard there is one value at most.
get_first_json_object(j, '$.a') => to_json(variant_get(try_parse_json(j), '$.a'))
extract_json(j, '$.a.b')       => if(try_parse_json(j) IS NULL, NULL, array_compact(array(to_json(variant_get(try_parse_json(j), '$.a.b')))))
extract_json_string(j, '$["a b"]') => if(schema_of_variant(variant_get(try_parse_json(j), '$[\'a b\']')) = 'STRING', CAST(variant_get(try_parse_json(j), '$[\'a b\']') AS STRING), NULL)
-- A wildcard goes through the elements of an array.
extract_json(j, '$.a[*].b')    => transform(if(try_parse_json(j) IS NULL, NULL, filter(transform(flatten(filter(transform(array(try_parse_json(j)), v -> try_variant_get(v, '$.a', 'array<variant>')), v -> NOT v IS NULL)), v -> try_variant_get(v, '$.b', 'variant')), v -> NOT v IS NULL)), v -> to_json(v))
get_first_json_object(j, '$.a[*]') => to_json(get(if(try_parse_json(j) IS NULL, NULL, filter(transform(flatten(filter(transform(array(try_parse_json(j)), v -> try_variant_get(v, '$.a', 'array<variant>')), v -> NOT v IS NULL)), v -> try_variant_get(v, '$', 'variant')), v -> NOT v IS NULL)), 0))
