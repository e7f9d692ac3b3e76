-- Lists by several keys, of two directions, without repetition and without nulls.
INSERT INTO output
SELECT city, tumble(interval '20 seconds') AS window,
  array_agg(ride ORDER BY status, ride DESC) AS by_status, array_agg(ride ORDER BY status DESC, ride DESC) AS backwards,
  array_agg(ride ORDER BY fare DESC NULLS LAST, ride) AS by_fare, array_agg(fare ORDER BY ride) IGNORE NULLS AS fares,
  array_agg(DISTINCT status ORDER BY status DESC) AS statuses, count(DISTINCT driver) AS drivers,
  string_agg(DISTINCT status, '+' ORDER BY status) AS named,
  listagg(status, ';') WITHIN GROUP (ORDER BY ride) FILTER (WHERE pooled) AS pooled,
  nth_value(ride, 2 ORDER BY ride) AS second, nth_value(ride, -1 ORDER BY ride) FILTER (WHERE pooled) AS last_pooled,
  first_value(ride ORDER BY status DESC, ride) AS first, last_value(ride ORDER BY status, ride DESC) AS last,
  sum(ride ORDER BY at) AS total, var_population(fare) AS spread, array_agg('x') AS marks
FROM rides GROUP BY city, window;
