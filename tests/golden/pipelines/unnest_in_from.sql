INSERT INTO output SELECT o.id, t.tag FROM orders o CROSS JOIN UNNEST(tags) AS t(tag) WHERE t.tag <> 'new';
INSERT INTO output SELECT id, tag FROM orders LATERAL VIEW explode(tags) t AS tag WHERE amount > 400;
