-- error: column 'colour' not found (available: auction, bidder, price, at)
SELECT
  price,
  »colour
FROM bids

-- error: column or table 'x' not found
SELECT »x.price FROM bids b

-- error: column 'colour' not found in 'b'
SELECT b.»colour FROM bids b

-- error: table 'x' not found
SELECT »x.* FROM bids b

-- error: column 'p' not found (available: auction, bidder, price, at)
SELECT price AS p FROM bids WHERE »p > 3

-- error: unknown function 'frobnicate'
SELECT »frobnicate(price) FROM bids

-- error: an aggregate function is not allowed in this context
SELECT kind FROM rides WHERE »count(*) > 1

-- error: an aggregate inside an aggregate is not allowed
SELECT sum(»count(*)) FROM rides

-- error: count needs an argument: write count(*)
SELECT »count() FROM rides

-- error: a query inside an expression is not supported: write a JOIN instead
SELECT kind FROM rides WHERE driver IN (»SELECT bidder FROM bids)

-- error: a SELECT needs a FROM: there is nothing to read
»SELECT 1

-- error: a SELECT needs at least one column
»SELECT FROM bids

-- error: unnest is only supported in SELECT statements
SELECT kind FROM rides WHERE »unnest(tags) = 'a'

-- error: Projection contains multiple unnests, which is not currently supported
SELECT unnest(tags), »unnest(array_distinct(tags)) FROM rides

-- error: * is not allowed in this context
SELECT lower(»*) FROM rides

-- error: row_time() takes no arguments
SELECT »row_time(1) FROM rides

-- error: unsupported type TIME
SELECT »cast(kind AS TIME) FROM rides

-- error: The path argument to extract_json must be a literal
SELECT extract_json(payload, »kind) FROM rides

-- error: Invalid json path 'a.b': it starts with $
SELECT extract_json(payload, »'a.b') FROM rides

-- error: ORDER BY is not currently supported: a stream has no end to sort at
SELECT kind FROM rides ORDER BY »kind

-- error: LIMIT is not currently supported: a stream has no end
SELECT kind FROM rides LIMIT »10

-- error: DISTINCT ON is not supported
SELECT DISTINCT ON (»kind) * FROM rides

-- error: WITH RECURSIVE is not supported
WITH RECURSIVE »a AS (SELECT kind FROM rides) SELECT * FROM a

-- error: table names have no schema here: write the bare name
SELECT * FROM »public.bids

-- error: a function in FROM is not supported
SELECT * FROM »explode(array(1, 2))

-- error: TABLESAMPLE is not supported
SELECT * FROM »bids TABLESAMPLE (10 PERCENT)

-- error: parameters are not supported
SELECT kind FROM rides WHERE seats = $»1

-- error: write approx_percentile_cont(p [, centroids]) WITHIN GROUP (ORDER BY x), with one x
SELECT »approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY driver, seats) FROM rides GROUP BY kind

-- error: write approx_percentile_cont_with_weight(weight, p [, centroids]) WITHIN GROUP (ORDER BY x), with one x
SELECT »approx_percentile_cont_with_weight(seats) WITHIN GROUP (ORDER BY driver) FROM rides GROUP BY kind

-- error: write percentile_cont(p) WITHIN GROUP (ORDER BY x), with one x
SELECT »percentile_cont(0.5, 10) WITHIN GROUP (ORDER BY driver) FROM rides GROUP BY kind

-- error: the fraction of approx_percentile_cont is a number from 0 to 1
SELECT approx_percentile_cont(»1.5) WITHIN GROUP (ORDER BY driver) FROM rides GROUP BY kind

-- error: the fraction of percentile_cont is a number from 0 to 1
SELECT percentile_cont(»seats) WITHIN GROUP (ORDER BY driver) FROM rides GROUP BY kind

-- error: the number of centroids is a whole number above 0
SELECT approx_percentile_cont(0.5, »0) WITHIN GROUP (ORDER BY driver) FROM rides GROUP BY kind

-- error: with DISTINCT, ORDER BY names the argument and nothing else
SELECT array_agg(DISTINCT »kind ORDER BY seats) FROM rides GROUP BY driver

-- error: write nth_value(x, n ORDER BY y): n is 1 for the first, -1 the last
SELECT »nth_value(kind, 0 ORDER BY seats) FROM rides GROUP BY driver
