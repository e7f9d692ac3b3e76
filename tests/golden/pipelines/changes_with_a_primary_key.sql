-- By the key of the sink an update stays one change.
CREATE TABLE balances (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT) WITH (
  connector = 'single_file', path = '$output_dir/balances.json', format = 'debezium_json', type = 'sink'
);
INSERT INTO balances SELECT id, owner, balance FROM accounts;
