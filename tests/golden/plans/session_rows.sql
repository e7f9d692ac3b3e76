-- Sessions, with an aggregate that needs its rows.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
SELECT driver, session(interval '20 minutes') AS window, count(DISTINCT place) AS places, count(*) AS n
FROM rides GROUP BY 1, 2;
