INSERT INTO changes
SELECT city, count(*) AS rides, count(fare) AS paid, sum(fare) AS income, sum(seats) AS seats,
  avg(distance) AS distance, min(fare) AS cheapest, max(fare) AS dearest, min(driver) AS first_name,
  bool_and(pooled) AS all_pooled, bool_or(pooled) AS some_pooled,
  bit_and(flags) AS in_all, bit_or(flags) AS in_some, bit_xor(flags) AS odd
FROM rides GROUP BY city;
