INSERT INTO changes SELECT tag, count(*) AS n, max(amount) AS most FROM (SELECT amount, unnest(tags) AS tag FROM orders) GROUP BY tag;
