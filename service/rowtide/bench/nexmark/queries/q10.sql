-- Bids with day and minute, by which files of them are cut; writing them is a sink's.
CREATE VIEW q10 AS
  SELECT STREAM auction, bidder, price, date_time, extra,
    SUBSTRING(CAST(date_time AS VARCHAR(23)) FROM 1 FOR 10) AS bid_day,
    SUBSTRING(CAST(date_time AS VARCHAR(23)) FROM 12 FOR 5) AS bid_minute
  FROM bid;
