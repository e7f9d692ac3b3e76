CREATE TABLE per_shop WITH (
  connector = 'filesystem', path = '$output_dir/per_shop', format = 'parquet', type = 'sink', 'partitioning.fields' = [kind]
);
INSERT INTO per_shop
SELECT CASE WHEN amount > 250 THEN 'dear' ELSE 'cheap' END AS kind, shop, tumble(interval '20 seconds') AS window, sum(amount) AS total
FROM orders GROUP BY 1, 2, 3;
