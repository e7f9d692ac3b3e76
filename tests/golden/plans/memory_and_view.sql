-- A memory table and a view, read twice.
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, at TIMESTAMP) WITH (
  connector = 'filesystem', path = 'bids', format = 'parquet', type = 'source',
  event_time_field = 'at');
CREATE TABLE expensive (auction BIGINT, price BIGINT);
INSERT INTO expensive SELECT auction, price FROM bids WHERE price > 1000;
CREATE VIEW per_minute AS SELECT auction, count(*) AS n, tumble(interval '1 minute') AS window FROM expensive GROUP BY 1, 3;
SELECT window.end AS until, max(n) AS most FROM per_minute GROUP BY window, window.end;
SELECT auction, n FROM per_minute WHERE n > 10;
