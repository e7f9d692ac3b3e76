-- Projection and filter: both reach the source.
CREATE TABLE rides (
  at TIMESTAMP NOT NULL, driver BIGINT, kind TEXT, place TEXT, fare DECIMAL(10,2), meters DOUBLE,
  tags TEXT[], WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'rides.json', format = 'json', type = 'source');
CREATE TABLE out (driver BIGINT, label TEXT, fare BIGINT) WITH (
  connector = 'single_file', path = 'out.json', format = 'json', type = 'sink');
INSERT INTO out
SELECT driver, upper(kind) || ' at ' || place, fare FROM rides WHERE fare > 10 AND place IS NOT NULL;
