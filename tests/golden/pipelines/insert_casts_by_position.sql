-- Names do not matter, types are the sink's: 49.5 into a BIGINT is 49.
CREATE TABLE typed (a BIGINT, b TEXT, c INT, d DECIMAL(10, 2), e FLOAT, f DATE) WITH (
  connector = 'single_file', path = '$output_dir/typed.json', format = 'json', type = 'sink'
);
INSERT INTO typed SELECT price, amount, price * 2, price, price / 3, at FROM orders WHERE price IS NOT NULL;
