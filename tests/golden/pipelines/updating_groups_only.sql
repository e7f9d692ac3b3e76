INSERT INTO changes SELECT shop, page FROM clicks GROUP BY shop, page;
