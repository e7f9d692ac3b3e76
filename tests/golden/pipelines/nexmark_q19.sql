-- The ten highest bids of an auction, within windows of twenty seconds.
INSERT INTO output
SELECT auction, bidder, price, datetime, place FROM (
  SELECT auction, bidder, price, datetime, row_number() OVER (PARTITION BY window, auction ORDER BY price DESC, datetime) AS place FROM (
    SELECT auction, bidder, price, datetime, tumble(interval '20 seconds') AS window FROM bid GROUP BY 1, 2, 3, 4, 5)
) WHERE place <= 10;
