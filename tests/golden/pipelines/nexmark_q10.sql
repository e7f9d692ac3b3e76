-- Every bid into files by day and minute.
CREATE TABLE log WITH (
  connector = 'filesystem', path = '$output_dir/log', format = 'parquet', type = 'sink', 'partitioning.fields' = [day, minute]
);
INSERT INTO log
SELECT auction, bidder, price, datetime, date_format(datetime, 'yyyy-MM-dd') AS day, date_format(datetime, 'HH-mm') AS minute FROM bid;
