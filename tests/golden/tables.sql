-- The tables that every golden pipeline may read and write; those that it does not are not there.
CREATE TABLE orders (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/orders.json', format = 'json', type = 'source');

CREATE TABLE clicks (
  user TEXT, shop TEXT, page TEXT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/clicks.json', format = 'json', type = 'source');

CREATE TABLE rides (
  ride BIGINT NOT NULL, driver TEXT, city TEXT, status TEXT, fare DOUBLE, distance DOUBLE, seats INT,
  flags BIGINT, pooled BOOLEAN, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/rides.json', format = 'json', type = 'source');

CREATE TABLE late_rides (
  ride BIGINT NOT NULL, driver TEXT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/late_rides.json', format = 'json', type = 'source');

CREATE TABLE accounts (
  id BIGINT PRIMARY KEY, owner TEXT, city TEXT, balance BIGINT, score DOUBLE, active BOOLEAN, seen TIMESTAMP
) WITH (connector = 'single_file', path = '$input_dir/accounts.json', format = 'debezium_json', type = 'source');

CREATE TABLE events (
  value JSON,
  at TIMESTAMP GENERATED ALWAYS AS (to_timestamp(value ->> 'at')) STORED,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (
  connector = 'single_file', path = '$input_dir/events.json', format = 'json',
  'json.unstructured' = true, type = 'source'
);

CREATE TABLE readings (
  sensor TEXT, celsius DOUBLE, volts INT, note TEXT, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '3 seconds'
) WITH (connector = 'single_file', path = '$input_dir/readings.csv', format = 'csv', type = 'source');

CREATE TABLE access (value TEXT) WITH (
  connector = 'single_file', path = '$input_dir/access.log', format = 'raw_string', type = 'source'
);

-- The orders again, as a folder of Parquet files.
CREATE TABLE orders_in_files (
  id BIGINT, shop TEXT, item TEXT, amount BIGINT, price DOUBLE, at TIMESTAMP, tags TEXT[],
  WATERMARK FOR at AS at - INTERVAL '1 hour'
) WITH (
  connector = 'filesystem', path = '$input_dir/orders', format = 'parquet', 'source.read_mode' = 'bounded',
  type = 'source'
);

CREATE TEMPORARY TABLE shops (shop TEXT PRIMARY KEY, city TEXT, area BIGINT) WITH (
  connector = 'single_file', path = '$input_dir/shops.json', format = 'json'
);
CREATE TEMPORARY TABLE side (key BIGINT PRIMARY KEY, value TEXT) WITH (
  connector = 'single_file', path = '$input_dir/side.csv', format = 'csv'
);

CREATE TABLE nexmark WITH (
  connector = 'nexmark', message_count = 3000, event_time_interval = interval '20 milliseconds',
  start_time = '2024-03-01T00:00:00Z'
);
CREATE VIEW person AS
SELECT person.id, person.name, person.city, person.state, person.datetime FROM nexmark WHERE person IS NOT NULL;
CREATE VIEW auction AS
SELECT auction.id, auction.item_name, auction.initial_bid, auction.reserve, auction.datetime, auction.expires,
  auction.seller, auction.category
FROM nexmark WHERE auction IS NOT NULL;
CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.datetime, bid.extra
FROM nexmark WHERE bid IS NOT NULL;

CREATE TABLE output WITH (
  connector = 'single_file', path = '$output_dir/output.json', format = 'json', type = 'sink'
);
CREATE TABLE changes WITH (
  connector = 'single_file', path = '$output_dir/changes.json', format = 'debezium_json', type = 'sink'
);
