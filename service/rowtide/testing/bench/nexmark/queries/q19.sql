-- The ten highest bids on each auction, with their ranks, of each day.
CREATE VIEW q19 AS
  SELECT STREAM auction, bidder, price, date_time, rank_number
  FROM (SELECT STREAM auction, bidder, price, date_time,
      ROW_NUMBER() OVER (PARTITION BY FLOOR(ROWTIME TO DAY), auction ORDER BY price DESC, date_time) AS rank_number
    FROM (SELECT STREAM auction, bidder, price, date_time FROM bid) AS b) AS r
  WHERE rank_number <= 10;
