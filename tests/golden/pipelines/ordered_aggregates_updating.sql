INSERT INTO changes
SELECT city, median(fare) AS middle, approx_distinct(driver) AS drivers, approx_median(seats) AS seats,
  approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY distance) AS far, array_agg(ride ORDER BY ride) AS rides,
  first_value(ride) AS first, last_value(ride) AS last, string_agg(driver, ',' ORDER BY ride) AS named,
  count(DISTINCT status) AS statuses, count(DISTINCT driver) FILTER (WHERE fare > 20) AS dear_drivers
FROM rides GROUP BY city;
