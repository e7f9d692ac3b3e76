-- One source, three sinks, one of them of changes.
CREATE TABLE dear WITH (connector = 'single_file', path = '$output_dir/dear.json', format = 'json', type = 'sink');
INSERT INTO dear SELECT id, amount FROM orders WHERE amount > 400;
INSERT INTO changes SELECT shop, count(*) AS n, sum(amount) AS total FROM orders GROUP BY shop;
INSERT INTO output SELECT shop, tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY 1, 2;
