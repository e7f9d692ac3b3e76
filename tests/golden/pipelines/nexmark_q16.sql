-- Statistics by channel and day.
INSERT INTO changes
SELECT channel, date_format(datetime, 'yyyy-MM-dd') AS day, max(date_format(datetime, 'HH:mm')) AS minute, count(*) AS total,
  count(*) FILTER (WHERE price < 10000) AS rank1, count(DISTINCT bidder) AS bidders, count(DISTINCT auction) AS auctions
FROM bid GROUP BY channel, date_format(datetime, 'yyyy-MM-dd');
