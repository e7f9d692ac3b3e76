-- Nexmark q3: who sells in some states.
CREATE TABLE nexmark WITH (
  connector = 'nexmark', event_rate = 10000, message_count = 10000000, start_time = '2023-01-01T00:00:00Z'
);
CREATE VIEW person AS SELECT person.id AS id, person.name AS name, person.city AS city, person.state AS state,
  person.datetime AS at FROM nexmark WHERE person IS NOT NULL;
CREATE VIEW auction AS SELECT auction.id AS id, auction.item_name AS item, auction.seller AS seller,
  auction.category AS category, auction.initial_bid AS initial_bid, auction.reserve AS reserve,
  auction.datetime AS at, auction.expires AS expires FROM nexmark WHERE auction IS NOT NULL;
CREATE VIEW bid AS SELECT bid.auction AS auction, bid.bidder AS bidder, bid.price AS price, bid.channel AS channel,
  bid.url AS url, bid.datetime AS at, bid.extra AS extra FROM nexmark WHERE bid IS NOT NULL;

SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');
