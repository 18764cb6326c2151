-- The winning bid of each auction, as it changes.
CREATE TABLE auctions (id BIGINT PRIMARY KEY, item_name VARCHAR, description VARCHAR, initial_bid BIGINT,
  reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT);
CREATE PUMP opened STARTED AS INSERT INTO auctions SELECT STREAM * FROM auction;
CREATE VIEW valid_bids AS
  SELECT STREAM a.*, b.bidder, b.price, b.date_time AS bid_time
  FROM (SELECT STREAM auction, bidder, price, date_time FROM bid) AS b JOIN auctions AS a ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires;
CREATE VIEW q9 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM * FROM valid_bids
  QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC, bid_time) = 1
  EMIT CHANGES;
