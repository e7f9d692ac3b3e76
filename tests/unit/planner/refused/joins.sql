-- error: can't handle non-inner joins without windows: GROUP BY the same window on both sides, or make the right side a lookup table (CREATE TEMPORARY TABLE)
SELECT r.kind FROM rides r LEFT JOIN »bids b ON r.driver = b.bidder

-- error: can't handle non-inner joins without windows: GROUP BY the same window on both sides, or make the right side a lookup table (CREATE TEMPORARY TABLE)
SELECT r.kind FROM rides r FULL OUTER JOIN »bids b ON r.driver = b.bidder

-- An updating side is what cannot be joined, whatever the kind of the join.
-- error: can't handle updating left side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT o.id FROM orders o LEFT JOIN »bids b ON o.id = b.auction

-- error: can't handle updating right side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT b.price FROM bids b FULL JOIN »orders o ON o.id = b.auction

-- error: can't handle updating left side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT a.n FROM (SELECT driver, count(*) AS n FROM rides GROUP BY 1) a
RIGHT JOIN »(SELECT bidder, count(*) AS n FROM bids GROUP BY 1) b ON a.driver = b.bidder

-- error: can't handle updating left side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT o.id FROM orders o JOIN »bids b ON o.id = b.auction

-- error: can't handle updating right side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT b.price FROM bids b JOIN »orders o ON o.id = b.auction

-- error: can't handle updating right side of join: join the streams first and aggregate above the join, or GROUP BY the same window on both sides
SELECT b.price, n FROM bids b
JOIN »(SELECT driver, count(*) AS n FROM rides GROUP BY 1) r ON r.driver = b.bidder

-- error: Updating joins must include an equijoin condition: write a.key = b.key AND the range beside it
SELECT r.kind FROM rides r JOIN »bids b ON r.driver > b.bidder

-- error: Updating joins must include an equijoin condition: write a.key = b.key AND the range beside it
SELECT r.kind FROM rides r CROSS JOIN »bids b

-- error: can't handle mixed windowing between left (non-windowed) and right (windowed).
SELECT b.price FROM bids b
JOIN »(SELECT driver, count(*) AS n FROM rides GROUP BY 1, tumble('1 minute')) r ON r.driver = b.bidder

-- error: can't handle mixed windowing between left and right
SELECT a.n FROM (SELECT driver, count(*) AS n FROM rides GROUP BY 1, tumble('1 minute')) a
JOIN »(SELECT driver, count(*) AS n FROM rides GROUP BY 1, tumble('1 hour')) b ON a.driver = b.driver

-- error: can't handle session windows in joins
SELECT a.n FROM (SELECT driver, count(*) AS n FROM rides GROUP BY 1, session('1 minute')) a
JOIN »(SELECT driver, count(*) AS n FROM rides GROUP BY 1, session('1 minute')) b ON a.driver = b.driver

-- error: column 'driver' is ambiguous (could be a.driver, b.driver)
SELECT »driver FROM rides a JOIN rides b ON a.driver = b.driver

-- error: column 'colour' not found in 'b'
SELECT a.kind FROM rides a JOIN bids b ON a.driver = b.»colour

-- error: column 'colour' not found in the left side of the join
SELECT a.kind FROM rides a JOIN bids b USING (»colour)

-- error: NATURAL JOIN is not supported
SELECT price FROM rides NATURAL JOIN »bids

-- error: SEMI JOIN is not supported
SELECT kind FROM rides r LEFT SEMI JOIN »bids b ON r.driver = b.bidder

-- error: the sides of UNION have 1 and 2 columns
SELECT kind FROM rides UNION ALL »SELECT price, bidder FROM bids

-- error: can't handle mixed windowing between the sides of UNION
SELECT count(*) FROM rides GROUP BY tumble('1 minute') UNION ALL »SELECT price FROM bids

-- error: EXCEPT is not supported
»SELECT driver FROM rides EXCEPT SELECT bidder FROM bids
