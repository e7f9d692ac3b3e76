INSERT INTO output SELECT o.id, s.city, s.area * 2 AS area FROM orders o JOIN shops s ON o.shop = s.shop WHERE s.area > 0;
