-- New users who sell (Nexmark q3): a join of facts, filtered below.
CREATE TABLE nexmark WITH (connector = 'nexmark', event_rate = 1000, message_count = 100000);
SELECT p.name, p.city, p.state, a.id
FROM (SELECT auction.id AS id, auction.seller AS seller, auction.category AS category FROM nexmark WHERE auction IS NOT NULL) a
JOIN (SELECT person.id AS id, person.name AS name, person.city AS city, person.state AS state FROM nexmark WHERE person IS NOT NULL) p
ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');
