SET updating_ttl = interval '2 hours';
INSERT INTO changes SELECT user, count(*) AS clicks, count(DISTINCT page) AS pages FROM clicks GROUP BY user;
