-- A stateful operator with three readers runs once.
CREATE TABLE many WITH (connector = 'single_file', path = '$output_dir/many.json', format = 'json', type = 'sink');
CREATE TABLE few WITH (connector = 'single_file', path = '$output_dir/few.csv', format = 'csv', type = 'sink');
CREATE VIEW counts AS SELECT item, tumble(interval '30 seconds') AS window, count(*) AS n FROM orders GROUP BY 1, 2;
INSERT INTO many SELECT item, window.start AS start, n FROM counts WHERE n > 3;
INSERT INTO few SELECT item, n FROM counts WHERE n = 1;
INSERT INTO changes SELECT n, count(*) AS times FROM (SELECT item, count(*) AS n FROM orders GROUP BY item) GROUP BY n;
