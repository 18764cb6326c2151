-- The mean price of the last ten auctions that each seller sold, of each day.
CREATE TABLE auctions (id BIGINT PRIMARY KEY, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT);
CREATE PUMP opened STARTED AS INSERT INTO auctions SELECT STREAM id, date_time, expires, seller FROM auction;
CREATE VIEW valid_bids AS
  SELECT STREAM a.id, a.seller, b.price, b.date_time AS bid_time
  FROM (SELECT STREAM auction, price, date_time FROM bid) AS b JOIN auctions AS a ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires;
CREATE VIEW winners AS
  SELECT STREAM id, seller, price, bid_time FROM valid_bids
  QUALIFY ROW_NUMBER() OVER (PARTITION BY FLOOR(ROWTIME TO DAY), id ORDER BY price DESC, bid_time) = 1;
CREATE VIEW sold AS
  SELECT STREAM bid_time AS ROWTIME, seller, id, price FROM winners ORDER BY bid_time WITHIN INTERVAL '1' DAY;
CREATE VIEW q6 AS
  SELECT STREAM seller, id, SUM(price) OVER last_ten AS total, COUNT(*) OVER last_ten AS auctions,
    AVG(price) OVER last_ten AS mean
  FROM sold WINDOW last_ten AS (PARTITION BY seller ROWS 9 PRECEDING);
