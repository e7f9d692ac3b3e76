INSERT INTO output
SELECT city, driver, window.start AS start, income, place, dense FROM (
  SELECT city, driver, window, income,
    rank() OVER (PARTITION BY window, city ORDER BY income DESC NULLS LAST) AS place,
    dense_rank() OVER (PARTITION BY window, city ORDER BY income DESC NULLS LAST) AS dense
  FROM (SELECT city, driver, tumble(interval '30 seconds') AS window, sum(fare) AS income FROM rides GROUP BY 1, 2, 3)
) WHERE place <= 2;
