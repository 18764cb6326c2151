-- Bids of each auction and day.
CREATE VIEW q17 AS
  SELECT STREAM auction, FLOOR(ROWTIME TO DAY) AS bid_day, COUNT(*) AS bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
    MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
  FROM bid GROUP BY FLOOR(ROWTIME TO DAY), auction;
