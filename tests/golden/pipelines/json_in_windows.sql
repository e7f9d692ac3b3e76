-- The event time itself comes out of the JSON.
INSERT INTO output
SELECT value -> 'user' ->> 'name' AS name, tumble(interval '20 seconds') AS window, sum((value -> 'amount')::DOUBLE) AS amount,
  count(*) FILTER (WHERE value ? 'gift') AS gifts
FROM events GROUP BY 1, 2;
