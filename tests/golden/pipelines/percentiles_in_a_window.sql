-- Every form of a percentile: WITHIN GROUP and the older call, with weights, from either end, filtered.
INSERT INTO output
SELECT city, tumble(interval '20 seconds') AS window,
  approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY distance) AS far,
  approx_percentile_cont(0.9, 200) WITHIN GROUP (ORDER BY distance DESC) AS near,
  approx_percentile_cont(distance, 0.5, 100) AS about,
  approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY ride) FILTER (WHERE pooled) AS pooled,
  approx_percentile_cont_with_weight(seats, 0.5) WITHIN GROUP (ORDER BY fare) AS weighted,
  approx_percentile_cont_with_weight(seats, 0.2, 100) WITHIN GROUP (ORDER BY fare DESC) FILTER (WHERE pooled) AS dear,
  approx_percentile_cont_with_weight(fare, seats, 0.5) AS weighted_call,
  percentile_cont(0.3) WITHIN GROUP (ORDER BY fare) AS low, quantile_cont(0.3) WITHIN GROUP (ORDER BY fare DESC) AS high,
  percentile_cont(fare, 0.3) AS low_call, percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY fare) AS quarters,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY fare) FILTER (WHERE pooled) AS one_of_them,
  mode() WITHIN GROUP (ORDER BY seats) AS usual, median(fare) FILTER (WHERE pooled) AS middle, approx_median(seats) AS seats,
  percentile_approx(distance, array(0.1, 0.9)) AS ends
FROM rides GROUP BY city, window;
