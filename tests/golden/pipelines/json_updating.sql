INSERT INTO changes
SELECT value ->> 'city' AS city, value ->> 'type' AS type, count(*) AS n, max(value -> 'user' ->> 'name') AS last,
  median(CAST(value ->> 'amount' AS DOUBLE)) AS middle
FROM events GROUP BY value ->> 'city', value ->> 'type';
