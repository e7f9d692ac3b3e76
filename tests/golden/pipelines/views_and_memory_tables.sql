CREATE VIEW large AS SELECT shop, amount FROM orders WHERE amount > 150;
CREATE TABLE kept (shop TEXT, amount BIGINT);
INSERT INTO kept SELECT shop, amount FROM large WHERE shop IS NOT NULL;

INSERT INTO output
SELECT shop, window.start AS started, total FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, sum(amount) AS total FROM kept GROUP BY 1, 2);
