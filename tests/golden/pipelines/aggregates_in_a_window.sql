-- Everything that keeps one small value per key and window.
INSERT INTO output
SELECT city, tumble(interval '20 seconds') AS window, count(*) AS rides, count(fare) AS paid, sum(fare) AS income,
  sum(seats) AS seats, avg(distance) AS distance, avg(seats) AS mean_seats, min(fare) AS cheapest, max(fare) AS dearest,
  min(driver) AS first_name, max(at) AS newest, bool_and(pooled) AS all_pooled, bool_or(pooled) AS some_pooled,
  bit_and(flags) AS in_all, bit_or(flags) AS in_some, bit_xor(flags) AS odd
FROM rides GROUP BY city, window;
