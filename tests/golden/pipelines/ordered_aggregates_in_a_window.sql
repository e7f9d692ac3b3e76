-- What needs the values themselves: ranks, lists, the first and the last.
INSERT INTO output
SELECT city, tumble(interval '20 seconds') AS window, median(fare) AS middle, approx_distinct(driver) AS drivers,
  approx_median(seats) AS seats, approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY distance) AS far,
  array_agg(ride ORDER BY ride) AS rides, first_value(ride) AS first, last_value(ride) AS last,
  first_value(ride ORDER BY ride DESC) AS highest, string_agg(driver, ',' ORDER BY ride) AS named,
  count(DISTINCT status) AS statuses, sum(DISTINCT seats) AS kinds,
  count(DISTINCT driver) FILTER (WHERE fare > 20) AS dear_drivers, array_agg(ride ORDER BY ride) FILTER (WHERE seats = 1) AS single
FROM rides GROUP BY city, window;
