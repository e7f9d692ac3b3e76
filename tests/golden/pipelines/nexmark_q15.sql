-- Bidders and auctions by day.
INSERT INTO changes
SELECT date_format(datetime, 'yyyy-MM-dd') AS day, count(*) AS total,
  count(*) FILTER (WHERE price < 10000) AS rank1, count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2,
  count(*) FILTER (WHERE price >= 1000000) AS rank3, count(DISTINCT bidder) AS bidders,
  count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  count(DISTINCT auction) AS auctions, count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid GROUP BY 1;
