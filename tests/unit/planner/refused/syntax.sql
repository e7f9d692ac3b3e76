-- error: Expecting ) at 'FROM'
SELECT (price »FROM bids

-- error: incomplete WHERE at 'WHERE'
SELECT price FROM bids »WHERE

-- error: quoted text is never closed
SELECT price FROM bids WHERE kind = »'abc

-- error: comment is never closed
SELECT price FROM bids »/* and so on

-- error: expected CREATE TABLE, CREATE VIEW, INSERT, SELECT or SET
SELECT price FROM bids;
»nonsense here

-- error: Expected TABLE or VIEW after CREATE at 'FUNCTION'
CREATE »FUNCTION f AS 1

-- error: Expected = after the option's name at '3'
CREATE TABLE t (a INT) WITH (path »3)

-- error: CREATE TABLE ... AS takes a query, without columns and options at 'SELECT'
CREATE TABLE t (a INT) AS »SELECT price FROM bids
