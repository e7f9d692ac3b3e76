-- How many bids a person makes in each session.
INSERT INTO output SELECT bidder, count(*) AS bids, session(interval '2 seconds') AS window FROM bid GROUP BY bidder, window;
