-- The mean price of the last ten auctions that a seller closed.
-- udfs: functions.py
INSERT INTO changes
SELECT seller, mean_of_last_ten(final, expires) AS mean FROM (
  SELECT a.seller AS seller, a.expires AS expires, max(b.price) AS final FROM auction a, bid b
  WHERE a.id = b.auction AND b.datetime BETWEEN a.datetime AND a.expires GROUP BY a.id, a.seller, a.expires
) GROUP BY seller;
