-- Without an order of its own, a value is the first or the last by event time.
first_value(x) => min_by(x, row_time())
last(x) => max_by(x, row_time())
last_value(x) IGNORE NULLS => max_by(x, row_time()) FILTER(WHERE NOT x IS NULL)
first_value(x ORDER BY y DESC) => max_by(x, y)
first_value(x ORDER BY y, z) => try_element_at(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', z IS NULL, 'k2', z, 'v', x)), TRUE).v, 1)
last_value(x ORDER BY y, z) IGNORE NULLS => try_element_at(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', z IS NULL, 'k2', z, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v, -1)
nth_value(x, 2 ORDER BY y) => try_element_at(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)), TRUE).v, 2)
nth_value(x, -1) => try_element_at(sort_array(collect_list(named_struct('n', row_time() IS NULL, 'k', row_time(), 'v', x)), TRUE).v, -1)
nth_value(x, 2 ORDER BY y) FILTER (WHERE z) => try_element_at(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE z), TRUE).v, 2)
nth_value(x, 2) OVER (PARTITION BY w ORDER BY y) => nth_value(x, 2) OVER (PARTITION BY w ORDER BY y NULLS LAST)
-- Lists are sorted by structs of keys and value.
array_agg(x ORDER BY y DESC) => sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)), FALSE).v
array_agg(x ORDER BY y NULLS FIRST) => sort_array(collect_list(named_struct('n', NOT y IS NULL, 'k', y, 'v', x)), TRUE).v
array_agg(x ORDER BY y) FILTER (WHERE z) => sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE z), TRUE).v
array_agg(x ORDER BY y) IGNORE NULLS => sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v
array_agg(x) IGNORE NULLS => collect_list(x)
array_agg(DISTINCT x) => collect_list(DISTINCT x)
array_agg(DISTINCT x ORDER BY x DESC) => sort_array(collect_list(DISTINCT named_struct('n', x IS NULL, 'k', x, 'v', x)), FALSE).v
-- Several keys of one direction are one struct, of two directions a comparison.
array_agg(x ORDER BY y, z) => sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', z IS NULL, 'k2', z, 'v', x)), TRUE).v
array_agg(x ORDER BY y, z DESC) => array_sort(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', NOT z IS NULL, 'k2', z, 'v', x)), (l, r) -> CASE WHEN l.n < r.n THEN -1 WHEN l.n > r.n THEN 1 WHEN l.k < r.k THEN -1 WHEN l.k > r.k THEN 1 WHEN l.n2 < r.n2 THEN -1 WHEN l.n2 > r.n2 THEN 1 WHEN l.k2 > r.k2 THEN -1 WHEN l.k2 < r.k2 THEN 1 WHEN l.v < r.v THEN -1 WHEN l.v > r.v THEN 1 ELSE 0 END).v
string_agg(x, ',' ORDER BY y) => if(cardinality(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v) = 0, NULL, array_join(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v, ','))
string_agg(x, ',') WITHIN GROUP (ORDER BY y) => if(cardinality(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v) = 0, NULL, array_join(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v, ','))
string_agg(x, ',' ORDER BY y) FILTER (WHERE z) => if(cardinality(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL AND z), TRUE).v) = 0, NULL, array_join(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL AND z), TRUE).v, ','))
string_agg(x, ';' ORDER BY y DESC, z DESC NULLS LAST) => if(cardinality(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', NOT z IS NULL, 'k2', z, 'v', x)) FILTER(WHERE NOT x IS NULL), FALSE).v) = 0, NULL, array_join(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'n2', NOT z IS NULL, 'k2', z, 'v', x)) FILTER(WHERE NOT x IS NULL), FALSE).v, ';'))
string_agg(DISTINCT x, ',' ORDER BY x) => if(cardinality(sort_array(collect_list(DISTINCT named_struct('n', x IS NULL, 'k', x, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v) = 0, NULL, array_join(sort_array(collect_list(DISTINCT named_struct('n', x IS NULL, 'k', x, 'v', x)) FILTER(WHERE NOT x IS NULL), TRUE).v, ','))
listagg(x, ';') WITHIN GROUP (ORDER BY y) FILTER (WHERE z) => if(cardinality(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL AND z), TRUE).v) = 0, NULL, array_join(sort_array(collect_list(named_struct('n', y IS NULL, 'k', y, 'v', x)) FILTER(WHERE NOT x IS NULL AND z), TRUE).v, ';'))
-- An order that makes no difference.
sum(x ORDER BY y) => sum(x)
