-- A window as an alias, by its position, as an expression, and its length as a text.
INSERT INTO output SELECT 'alias' AS form, tumble('20 seconds') AS window, count(*) AS n FROM orders GROUP BY window;
INSERT INTO output SELECT 'position' AS form, tumble(interval '20' second) AS window, count(*) AS n FROM orders GROUP BY 2;
INSERT INTO output
SELECT 'expression' AS form, tumble(interval '20 seconds') AS window, count(*) AS n FROM orders GROUP BY tumble(interval '20 seconds');
