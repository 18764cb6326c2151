-- Bids with what a table has for their auctions.
CREATE TABLE side_input (key BIGINT PRIMARY KEY, value BIGINT);
CREATE VIEW q13 AS
  SELECT STREAM b.auction, b.bidder, b.price, b.date_time, s.value
  FROM (SELECT STREAM auction, bidder, price, date_time, auction % 10000 AS side FROM bid) AS b
  JOIN side_input AS s ON b.side = s.key;
