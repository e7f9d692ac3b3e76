-- error: upper() takes 1 argument, but 2 are given
SELECT »upper(kind, 1) FROM rides

-- error: 'kind' is TEXT, and + computes with numbers: write CAST(kind AS BIGINT) if it holds numbers
SELECT »driver + kind FROM rides

-- error: 'kind' is TEXT, and sum needs numbers: write CAST(kind AS BIGINT) if it holds numbers
SELECT »sum(kind) FROM rides

-- error: sum() does not take BOOLEAN
SELECT »sum(paid) FROM rides GROUP BY tumble('1 hour')

-- error: WHERE needs a condition, but this is INT
SELECT kind FROM rides WHERE »seats

-- error: 'north' is no number, but stands beside BIGINT at =
SELECT kind FROM rides WHERE driver = »'north'

-- error: WHERE needs a condition, but this is TEXT
SELECT kind FROM rides WHERE »upper(kind)

-- error: WHERE needs a condition, but this is ARRAY<TEXT>
SELECT seats FROM rides WHERE paid AND »tags

-- error: column 'a' of 'facts' is BIGINT: ARRAY<TEXT> cannot be cast to it
INSERT INTO facts SELECT »tags, kind FROM rides

-- error: + does not take TIMESTAMP and TIMESTAMP: convert one with CAST
INSERT INTO facts SELECT driver, »at + at FROM rides

-- error: column 'a' of 'facts' is BIGINT: ARRAY<TEXT> cannot be cast to it
INSERT INTO facts (b, a) SELECT kind, »tags FROM rides

-- error: + does not take ARRAY<TEXT> and INT: convert one with CAST
SELECT »tags + 1 FROM rides

-- error: abs() does not take ARRAY<TEXT>: it takes INT, BIGINT, DOUBLE, DECIMAL(10,2), TEXT, INTERVAL DAY TO SECOND
SELECT »abs(tags) FROM rides

-- error: date_add() does not take TIMESTAMP and BIGINT together: convert one with CAST
SELECT »date_add(at, driver) FROM rides

-- error: the struct has no field 'x' (fields: a, b)
SELECT info.»x FROM rides

-- error: the struct has no field 'bb' (fields: a, b): did you mean `b`?
SELECT info.»bb FROM rides

-- error: ARRAY<TEXT> cannot be cast to INT
SELECT »CAST(tags AS INT) FROM rides

-- error: array_contains() does not take TEXT and TEXT together: convert one with CAST
SELECT »array_contains(kind, 'a') FROM rides

-- error: WHEN needs a condition, but this is INT
SELECT CASE WHEN »seats THEN 1 END FROM rides

-- error: FILTER needs a condition, but this is TEXT
SELECT count(*) FILTER (WHERE »kind) FROM rides GROUP BY tumble('1 hour')

-- error: HAVING needs a condition, but this is BIGINT
SELECT kind FROM rides GROUP BY kind HAVING »count(*)

-- error: ON needs a condition, but this is BIGINT
SELECT r.kind FROM rides r JOIN bids b ON r.driver = b.bidder AND b.»price

-- error: > does not take ARRAY<TEXT> and BIGINT: convert one with CAST
SELECT r.kind FROM rides r JOIN bids b ON r.driver = b.bidder AND r.»tags > b.price

-- error: + does not take ARRAY<TEXT> and INT: convert one with CAST
SELECT »x + 1 FROM (SELECT tags AS x FROM rides)

-- error: lower() does not take ARRAY<TEXT>
SELECT n || 1, »lower(t) FROM (SELECT count(*) AS n, max(tags) AS t FROM rides GROUP BY tumble('1 hour'))

-- error: replace() takes 2 or 3 arguments, but 1 is given
SELECT »replace(kind) FROM rides

-- error: map() takes an even number of arguments, but 1 is given
SELECT »map('a') FROM rides

-- error: sqrt() does not take TIMESTAMP: it takes INT, BIGINT, DOUBLE, DECIMAL(10,2), TEXT
SELECT »sqrt(at) FROM rides

-- error: 'kind' is TEXT, and * computes with numbers: write CAST(kind AS BIGINT) if it holds numbers
SELECT m.driver FROM (SELECT driver, kind FROM rides) m WHERE m.»kind * 2 > 4

-- error: upper() takes 1 argument, but 2 are given
CREATE VIEW v AS SELECT kind,
  »upper(kind, driver) AS u FROM rides;
SELECT u FROM v

-- error: NOT does not take ARRAY<TEXT>
SELECT unpaid FROM (
  SELECT seats,
    NOT »tags AS unpaid FROM rides
)

-- error: lower() takes 1 argument, but 2 are given
WITH c AS (SELECT »lower(at, 1) AS x FROM rides) SELECT x FROM c

-- error: upper() takes 1 argument, but 2 are given
SELECT kind FROM rides UNION ALL SELECT »upper(at, at) FROM rides

-- error: column 'knd' not found (available: at, driver, kind, place, fare, tip, meters, seats, tags, info, *
SELECT »knd FROM rides
