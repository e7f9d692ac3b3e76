-- error: input is updating, but sink is not configured as an updating sink (hint: use `format = 'debezium_json'`)
INSERT INTO »facts SELECT driver, count(*) FROM rides GROUP BY driver

-- error: input is updating, but sink is not configured as an updating sink (hint: use `format = 'debezium_json'`)
INSERT INTO »facts SELECT id, customer FROM orders WHERE amount > 3

-- error: debezium_json sources need a PRIMARY KEY: mark the columns of the key
CREATE TABLE »t (a INT) WITH (connector = 'single_file', path = '/x', type = 'source', format = 'debezium_json')

-- error: can't use virtual fields with debezium format
CREATE TABLE t (a INT PRIMARY KEY, »b INT GENERATED ALWAYS AS (a + 1)) WITH (
  connector = 'single_file', path = '/x', type = 'source', format = 'debezium_json')

-- error: can't use event_time_field with update mode.
CREATE TABLE t (a INT PRIMARY KEY, at TIMESTAMP) WITH (
  connector = 'single_file', path = '/x', type = 'source', format = 'debezium_json', »event_time_field = 'at')
