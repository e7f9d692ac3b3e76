-- No keys at all: one row that changes.
INSERT INTO changes
SELECT count(*) AS rides, sum(fare) AS income, max(fare) AS dearest, count(DISTINCT driver) AS drivers FROM rides;
