CREATE TABLE kept (id BIGINT, shop TEXT, amount INT, at TIMESTAMP, tags TEXT[]) WITH (
  connector = 'filesystem', path = '$output_dir/kept', format = 'parquet', type = 'sink'
);
INSERT INTO kept SELECT id, shop, amount, at, tags FROM orders_in_files WHERE amount % 2 = 0;
