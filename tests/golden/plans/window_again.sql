-- The window invoked again above an aggregate that left it out.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT window.start AS start, drivers FROM (
  SELECT tumble(interval '1 hour') AS window, count(*) AS drivers FROM (
    SELECT driver, count(*) AS n FROM rides GROUP BY 1, tumble(interval '1 hour')) WHERE n > 2 GROUP BY 1);
