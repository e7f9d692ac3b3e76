CREATE TABLE numbers WITH (
  connector = 'impulse', message_count = 240, event_time_interval = interval '1 second', start_time = '2024-03-01T00:00:00Z'
);
INSERT INTO output SELECT counter % 3 AS rest, tumble(interval '1 minute') AS window, sum(counter) AS total FROM numbers GROUP BY 1, 2;
