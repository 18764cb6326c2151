-- The mean of the highest bids of the auctions of each category, as it changes.
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category BIGINT, date_time TIMESTAMP, expires TIMESTAMP);
CREATE PUMP opened STARTED AS
  INSERT INTO auctions SELECT STREAM id, category, date_time, expires FROM auction;
CREATE VIEW open_bids AS
  SELECT STREAM a.id, a.category, b.price
  FROM (SELECT STREAM auction, price, date_time FROM bid) AS b JOIN auctions AS a ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires;
CREATE VIEW highest OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM id, category, MAX(price) AS price FROM open_bids GROUP BY id, category EMIT CHANGES;
CREATE VIEW q4 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM category, AVG(price) AS mean, SUM(price) AS total, COUNT(*) AS auctions
  FROM highest GROUP BY category;
