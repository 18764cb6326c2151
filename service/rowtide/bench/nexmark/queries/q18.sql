-- The last bid of each bidder on each auction.
CREATE TABLE q18 (bidder BIGINT, auction BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
  date_time TIMESTAMP, extra VARCHAR, PRIMARY KEY (bidder, auction));
CREATE PUMP latest STARTED AS
  INSERT INTO q18 SELECT STREAM bidder, auction, price, channel, url, date_time, extra FROM bid;
