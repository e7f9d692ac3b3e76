INSERT INTO output
SELECT ride, extract(epoch from at) AS epoch, extract(minute from at) AS minute, date_trunc('minute', at) AS begun,
  at + INTERVAL '1 day 2 hours' AS later, CAST(at AS DATE) AS day, date_bin(interval '15 seconds', at) AS quarter,
  to_timestamp_millis(ride * 1000) AS moment, date_format(at, 'HH:mm') AS clock, at < TIMESTAMP '2024-03-01 00:01:00' AS early
FROM rides;
