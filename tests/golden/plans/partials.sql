-- Every aggregate that merges, in one window.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT count(*) AS a, count(place) AS b, sum(fare) AS c, sum(meters) AS d, min(place) AS e, max(at) AS f, avg(meters) AS g,
  bool_and(fare > 1) AS h, bool_or(fare > 1) AS i, bit_and(driver) AS j, bit_or(driver) AS k, bit_xor(driver) AS l,
  count(*) FILTER (WHERE kind = 'pickup') AS m, max(fare * 2) AS n
FROM rides GROUP BY tumble(interval '1 minute');
