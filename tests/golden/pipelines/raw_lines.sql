CREATE TABLE errors WITH (connector = 'single_file', path = '$output_dir/errors.txt', format = 'raw_string', type = 'sink');
INSERT INTO errors SELECT regexp_replace(value, '^([0-9.]+) .*"([A-Z]+) (.*)" ([0-9]+) .*$', '$4 $2 $3 from $1') AS value
FROM access WHERE value ~ '" [45][0-9]{2} ';
