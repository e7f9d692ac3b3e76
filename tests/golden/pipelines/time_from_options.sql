-- The older way to name the event time and the watermark.
CREATE TABLE timed (
  id BIGINT, at TIMESTAMP, known_until TIMESTAMP GENERATED ALWAYS AS (at - INTERVAL '4 seconds') STORED
) WITH (
  connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source',
  event_time_field = 'at', watermark_field = 'known_until'
);
INSERT INTO output SELECT tumble(interval '10 seconds') AS window, count(*) AS n FROM timed GROUP BY 1;
