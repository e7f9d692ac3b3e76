-- A hopping window and HAVING.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT driver, count(*) AS rides, sum(fare) AS earned, hop(interval '5 minutes', interval '1 hour') AS window
FROM rides WHERE kind = 'dropoff' GROUP BY driver, window HAVING count(*) > 3;
