-- error: unknown function 'uper': did you mean `upper`?
SELECT »uper(kind) FROM rides

-- error: table 'ride' not found (declared: bids, changes, facts, orders, rides): did you mean `rides`?
SELECT * FROM »ride

-- error: column 'drver' not found in 'r': did you mean `driver`?
SELECT r.»drver FROM rides r

-- error: column or table 'rdes' not found: did you mean `rides`?
SELECT »rdes.kind FROM rides

-- error: column 'aa' not found in the table: did you mean `a`?
INSERT INTO facts (»aa, b) SELECT driver, kind FROM rides

-- error: unknown setting 'updating_tl' (known: updating_ttl): did you mean `updating_ttl`?
SET »updating_tl = '1 hour'

-- error: unknown connector 'kafak': the known ones are *
CREATE TABLE x (a INT) WITH (»connector = 'kafak', type = 'source')

-- error: unknown options provided in WITH clause: 'pth' (did you mean `path`?)
CREATE TABLE x (a INT) WITH (connector = 'single_file', »pth = '/x', type = 'source')

-- error: column 'aa' of the primary key is not declared: did you mean `a`?
CREATE TABLE x (a INT, PRIMARY KEY (»aa)) WITH (connector = 'single_file', path = '/x', type = 'source')
