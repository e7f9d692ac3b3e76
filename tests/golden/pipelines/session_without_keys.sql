INSERT INTO output SELECT session(interval '600 milliseconds') AS window, count(*) AS n, max(user) AS last FROM clicks GROUP BY 1;
