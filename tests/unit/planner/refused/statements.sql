-- error: The provided SQL does not contain a query
CREATE VIEW v AS SELECT auction FROM bids;

-- error: attempted to read from table 'facts', but it is a sink
SELECT * FROM »facts

-- error: attempted to insert into table 'bids', but it is a source
INSERT INTO »bids SELECT 1, 2, 3, row_time() FROM rides

-- error: attempted to insert into 'v', but it is a view
CREATE VIEW v AS SELECT auction FROM bids;
INSERT INTO »v SELECT auction FROM bids

-- error: table 'nowhere' not found (declared: bids, changes, facts, orders, rides)
INSERT INTO facts SELECT a, b
FROM »nowhere

-- error: table 'facts' has 2 columns, but the query returns 3
INSERT INTO »facts SELECT auction, bidder, price FROM bids

-- error: column 'c' not found in the table
INSERT INTO facts (a, »c) SELECT auction, bidder FROM bids

-- error: column 'a' is given twice
INSERT INTO facts (a, »a) SELECT auction, bidder FROM bids

-- error: all inserts into a table must share the same schema
CREATE TABLE s WITH (connector = 'single_file', path = '/o', type = 'sink');
INSERT INTO s SELECT auction FROM bids;
INSERT INTO »s SELECT kind FROM rides

-- error: INSERT needs a query: INSERT INTO t SELECT ...
INSERT INTO »facts VALUES (1, 'a')

-- error: Can only insert into a memory table once
CREATE TABLE m (a BIGINT);
INSERT INTO m SELECT auction FROM bids;
INSERT INTO »m SELECT driver FROM rides

-- error: Can't query from memory table m without first inserting into it.
CREATE TABLE m (a BIGINT);
SELECT a FROM »m

-- error: Memory tables do not allow with options; to create a connection table set the 'connector' option
CREATE TABLE m (a BIGINT) WITH (»path = '/x')

-- error: Memory tables do not allow with options
CREATE TABLE m (a BIGINT) WITH (connector = 'memory', »path = '/x')

-- error: Virtual fields are not supported in memory tables; instead write a query
CREATE TABLE m (a BIGINT, »b BIGINT GENERATED ALWAYS AS (a + 1))

-- error: table 'Bids' is already declared
CREATE TABLE »Bids (a BIGINT)

-- error: unknown options provided in WITH clause: 'colour'
CREATE TABLE t (a INT) WITH (connector = 'single_file', path = '/x', type = 'source', »colour = 'red')

-- error: unknown connector 'pigeon': the known ones are *
CREATE TABLE t (a INT) WITH (»connector = 'pigeon')

-- error: required option 'path' is missing
CREATE TABLE »t (a INT) WITH (connector = 'single_file', type = 'source')

-- error: required option 'type' not set: write type = 'source' or type = 'sink'
CREATE TABLE »t (a INT) WITH (connector = 'single_file', path = '/x')

-- error: invalid type 'lake', must be 'source' or 'sink'
CREATE TABLE t (a INT) WITH (connector = 'single_file', path = '/x', »type = 'lake')

-- error: connector 'impulse' cannot be a sink
CREATE TABLE t (a INT) WITH (connector = 'impulse', »type = 'sink')

-- error: an option is a string, number, boolean, interval, name or array
CREATE TABLE t (a INT) WITH (connector = 'single_file', path = »lower('/X'), type = 'source')

-- error: column 'A' is declared twice
CREATE TABLE t (a INT,
                »A TEXT)

-- error: column name '_timestamp' is reserved
CREATE TABLE t (»_timestamp TIMESTAMP)

-- error: column name '_op' is reserved
SELECT price AS »_op FROM bids

-- error: unsupported type TIME
CREATE TABLE t (a »TIME)

-- error: column 'a' needs a type
CREATE TABLE t (»a)

-- error: decimal(50,2): precision is 1 to 38, scale less
CREATE TABLE t (a »DECIMAL(50,2))

-- error: column 'b' of the primary key is not declared
CREATE TABLE t (a INT, PRIMARY KEY (a, »b)) WITH (connector = 'impulse')

-- error: source table 't' needs columns
CREATE TABLE »t WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: field n not found or not a timestamp
CREATE TABLE t (n INT, WATERMARK FOR »n) WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: field later not found or not a timestamp
CREATE TABLE t (n INT) WITH (connector = 'single_file', path = '/x', type = 'source', »event_time_field = 'later')

-- error: a table has one WATERMARK clause at most
CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a, »WATERMARK FOR a) WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: column 'b' not found (available: a)
CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS »b - INTERVAL '1 second') WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: a watermark must be a non-null timestamp
CREATE TABLE t (a TIMESTAMP, »WATERMARK FOR a AS NULL) WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: a sink has no generated columns and no WATERMARK
CREATE TABLE t (a TIMESTAMP, »WATERMARK FOR a) WITH (connector = 'single_file', path = '/x', type = 'sink')

-- error: connector 'single_file' has no metadata key 'offset' (known: none)
CREATE TABLE t (a BIGINT METADATA FROM »'offset') WITH (connector = 'single_file', path = '/x', type = 'source')

-- error: connector 'impulse' cannot be a lookup table
CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) WITH (»connector = 'impulse')

-- error: lookup table 't' needs a connector
CREATE TEMPORARY TABLE »t (a INT PRIMARY KEY)

-- error: unknown setting 'colour' (known: updating_ttl)
SET »colour = 'red'

-- error: '3 fortnights' is not an interval: 'fortnights' is not a unit of time
SET updating_ttl = »'3 fortnights'

-- error: unsupported statement DROP
»DROP TABLE bids

-- error: unsupported statement UPDATE
»UPDATE bids SET price = 1
