-- How many bids a person makes in ten seconds; by the time of the event where the benchmark takes that of arrival.
INSERT INTO output SELECT bidder, count(*) AS bids, tumble(interval '10 seconds') AS window FROM bid GROUP BY bidder, window;
