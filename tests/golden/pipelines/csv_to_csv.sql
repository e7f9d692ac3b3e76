CREATE TABLE notes (sensor TEXT, celsius DOUBLE, note TEXT, at TIMESTAMP) WITH (
  connector = 'single_file', path = '$output_dir/notes.csv', format = 'csv', type = 'sink'
);
INSERT INTO notes SELECT sensor, celsius, note, at FROM readings WHERE volts > 220;
