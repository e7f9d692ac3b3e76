CREATE TABLE hits (
  value TEXT,
  at TIMESTAMP GENERATED ALWAYS AS (CAST(split_part(split_part(value, '[', 2), ']', 1) AS TIMESTAMP)) STORED,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/access.log', format = 'raw_string', type = 'source');
INSERT INTO output
SELECT split_part(value, ' ', 1) AS host, tumble(interval '20 seconds') AS window, count(*) AS hits,
  sum(CAST(regexp_substr(value, '[0-9]+$') AS BIGINT)) AS bytes
FROM hits GROUP BY 1, 2;
