-- Nexmark q4: the average of the highest bids by category.
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

SELECT category, avg(final) AS mean FROM (
  SELECT a.id, a.category, max(b.price) AS final FROM auction a JOIN bid b
  ON a.id = b.auction AND b.at BETWEEN a.at AND a.expires GROUP BY a.id, a.category
) GROUP BY category;
