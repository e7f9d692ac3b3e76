INSERT INTO output
SELECT DISTINCT user, page FROM clicks;
