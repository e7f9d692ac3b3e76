INSERT INTO output
SELECT ride, seats / 2 AS half, seats % 3 AS rest, fare IS NULL AS free, coalesce(fare, 0) AS fare, round(distance, 0) AS whole,
  CASE WHEN fare > 40 THEN 'high' WHEN fare > 20 THEN 'middle' ELSE 'low' END AS class, greatest(fare, distance) AS most,
  -seats AS negative, abs(-distance) AS distance, flags & 3 AS low_bits, flags | 8 AS with_eight, CAST(fare AS INT) AS cut,
  TRY_CAST(driver AS INT) AS no_number, seats BETWEEN 2 AND 3 AS two_or_three, pooled IS TRUE AS pooled,
  fare IS DISTINCT FROM distance AS differs, CAST(fare AS DECIMAL(8, 1)) AS decimal_fare
FROM rides WHERE NOT (city IS NULL) OR pooled;
