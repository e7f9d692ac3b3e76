-- The average of the highest bids by category.
INSERT INTO changes
SELECT category, avg(final) AS mean FROM (
  SELECT max(b.price) AS final, a.category AS category FROM auction a, bid b
  WHERE a.id = b.auction AND b.datetime BETWEEN a.datetime AND a.expires GROUP BY a.id, a.category
) GROUP BY category;
