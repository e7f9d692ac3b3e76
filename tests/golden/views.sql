CREATE OR REPLACE TEMPORARY VIEW orders (
  id BIGINT, shop STRING, item STRING, amount BIGINT, price DOUBLE, at TIMESTAMP, tags ARRAY<STRING>
) USING json OPTIONS (path '$input_dir/orders.json');

CREATE OR REPLACE TEMPORARY VIEW clicks (user STRING, shop STRING, page STRING, at TIMESTAMP)
USING json OPTIONS (path '$input_dir/clicks.json');

CREATE OR REPLACE TEMPORARY VIEW rides (
  ride BIGINT, driver STRING, city STRING, status STRING, fare DOUBLE, distance DOUBLE, seats INT,
  flags BIGINT, pooled BOOLEAN, at TIMESTAMP
) USING json OPTIONS (path '$input_dir/rides.json');

CREATE OR REPLACE TEMPORARY VIEW late_rides (ride BIGINT, driver STRING, late BOOLEAN, at TIMESTAMP)
USING json OPTIONS (path '$input_dir/late_rides.json');

CREATE OR REPLACE TEMPORARY VIEW account_texts (line STRING)
USING text OPTIONS (path '$input_dir/accounts.json');

CREATE OR REPLACE TEMPORARY VIEW account_changes AS
SELECT change.*
FROM (
  SELECT from_json(
    coalesce(get_json_object(line, '$.payload'), line),
    'op STRING, ts_ms BIGINT, after STRUCT<id BIGINT, owner STRING, city STRING, balance BIGINT,
     score DOUBLE, active BOOLEAN, seen BIGINT>, before STRUCT<id BIGINT>'
  ) AS change
  FROM account_texts
);

-- The accounts after the last change.
CREATE OR REPLACE TEMPORARY VIEW accounts AS
SELECT last.after.*
FROM (
  SELECT max_by(struct(op, after), ts_ms) AS last
  FROM account_changes GROUP BY coalesce(after.id, before.id)
)
WHERE last.op <> 'd';

CREATE OR REPLACE TEMPORARY VIEW events (
  id BIGINT, type STRING, user STRUCT<name STRING, vip BOOLEAN>, items ARRAY<STRUCT<sku STRING, qty BIGINT>>,
  amount DOUBLE, city STRING, at TIMESTAMP, gift STRUCT<text STRING, wrap STRING>
) USING json OPTIONS (path '$input_dir/events.json');

CREATE OR REPLACE TEMPORARY VIEW readings (
  sensor STRING, celsius DOUBLE, volts INT, note STRING, at TIMESTAMP
) USING csv OPTIONS (path '$input_dir/readings.csv', header 'true', escape '"');

CREATE OR REPLACE TEMPORARY VIEW access (value STRING)
USING text OPTIONS (path '$input_dir/access.log');

CREATE OR REPLACE TEMPORARY VIEW shops (shop STRING, city STRING, area BIGINT)
USING json OPTIONS (path '$input_dir/shops.json');

CREATE OR REPLACE TEMPORARY VIEW side (key BIGINT, value STRING)
USING csv OPTIONS (path '$input_dir/side.csv', header 'true');
