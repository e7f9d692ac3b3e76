INSERT INTO changes
SELECT active, median(balance) AS middle, approx_distinct(owner) AS owners, approx_median(balance) AS about,
  approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY score) AS low, array_agg(id ORDER BY id) AS ids,
  first_value(id ORDER BY seen) AS oldest, last_value(id ORDER BY seen) AS newest, string_agg(owner, '+' ORDER BY id) AS named,
  count(DISTINCT city) AS cities, count(*) FILTER (WHERE balance < 0) AS in_debt
FROM accounts GROUP BY active;
