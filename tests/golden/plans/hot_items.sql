-- Hot items: a window joined with the maximum over the same window (Nexmark q5).
CREATE TABLE nexmark WITH (connector = 'nexmark', event_rate = 1000, message_count = 100000);
CREATE VIEW counts AS
SELECT bid.auction AS auction, count(*) AS n, hop(interval '2 seconds', interval '10 seconds') AS window
FROM nexmark WHERE bid IS NOT NULL GROUP BY 1, 3;
SELECT c.auction, c.n, c.window.end AS until
FROM counts c JOIN (SELECT max(n) AS top, window FROM counts GROUP BY window) m
ON c.window = m.window AND c.n >= m.top;
