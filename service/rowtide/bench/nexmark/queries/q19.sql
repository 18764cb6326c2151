-- The ten highest bids on each auction, with their ranks, as they change.
CREATE VIEW q19 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM auction, bidder, price, date_time,
    ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS rank_number
  FROM (SELECT STREAM auction, bidder, price, date_time FROM bid) AS b
  QUALIFY rank_number <= 10
  EMIT CHANGES;
