-- A row that breaks a promise of the table is left out.
CREATE TABLE strict (id BIGINT NOT NULL, amount BIGINT, shop TEXT NOT NULL) WITH (
  connector = 'single_file', path = '$input_dir/orders.json', format = 'json', bad_data = 'drop', type = 'source'
);
INSERT INTO output SELECT id, shop FROM strict;
