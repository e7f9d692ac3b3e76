-- Statistics by auction and day.
INSERT INTO changes
SELECT auction, date_format(datetime, 'yyyy-MM-dd') AS day, count(*) AS total, count(*) FILTER (WHERE price < 10000) AS rank1,
  min(price) AS low, max(price) AS high, avg(price) AS mean, sum(price) AS total_price
FROM bid GROUP BY auction, date_format(datetime, 'yyyy-MM-dd');
