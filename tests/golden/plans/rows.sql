-- Aggregates that Spark computes over the kept rows.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT kind, median(meters) AS a, stddev(meters) AS b, var_pop(meters) AS c, corr(meters, fare) AS d, regr_slope(meters, fare) AS e,
  approx_distinct(driver) AS f, approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY meters) AS g, array_agg(place) AS h,
  string_agg(place, ',') AS i, first_value(place) AS j, last_value(place) AS k, count(DISTINCT driver) AS l, avg(fare) AS m
FROM rides GROUP BY kind, tumble(interval '1 minute');
