INSERT INTO output
SELECT user, session(interval '5 seconds') AS window, count(DISTINCT page) AS pages, string_agg(page, '>' ORDER BY at) AS path,
  first_value(page) AS entered, last_value(page) AS left_from
FROM clicks GROUP BY user, window;
