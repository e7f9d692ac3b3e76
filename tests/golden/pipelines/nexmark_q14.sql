-- A filter and calculations.
INSERT INTO output
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN hour(datetime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(datetime) <= 6 OR hour(datetime) >= 20 THEN 'nightTime'
    ELSE 'otherTime' END AS kind,
  length(extra) - length(replace(extra, 'C', '')) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
