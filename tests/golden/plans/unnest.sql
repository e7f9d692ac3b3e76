-- Tags counted after unnest.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT tag, count(*) AS n, tumble(interval '1 hour') AS window FROM (SELECT unnest(tags) AS tag FROM rides WHERE driver > 0) GROUP BY 1, 3;
