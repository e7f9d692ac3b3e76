CREATE TABLE clicks (
  user TEXT, shop TEXT, page TEXT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/clicks.json', format = 'json', type = 'source');

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_path', format = 'json', type = 'sink'
);

INSERT INTO output
SELECT user, window.start AS started, window.end AS ended, clicks FROM (
  SELECT user, session(interval '4 seconds') AS window, count(*) AS clicks
  FROM clicks GROUP BY user, window);
