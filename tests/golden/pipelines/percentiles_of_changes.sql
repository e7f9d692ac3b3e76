-- Percentiles under rows that are taken back.
INSERT INTO changes
SELECT active, approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY score DESC) AS top,
  approx_percentile_cont_with_weight(id, 0.5) WITHIN GROUP (ORDER BY balance) AS weighted,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY balance) FILTER (WHERE id > 5) AS middle,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY balance DESC) FILTER (WHERE id > 5) AS one_of_them,
  string_agg(owner, '+') WITHIN GROUP (ORDER BY city NULLS FIRST, id DESC) AS owners,
  array_agg(DISTINCT city ORDER BY city) AS cities, nth_value(id, 2 ORDER BY balance, id) AS second
FROM accounts GROUP BY active;
