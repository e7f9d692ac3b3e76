CREATE TABLE partial (id BIGINT, note TEXT, shop TEXT) WITH (
  connector = 'single_file', path = '$output_dir/partial.json', format = 'json', type = 'sink'
);
INSERT INTO partial (shop, id) SELECT shop, id FROM orders WHERE amount > 300;
