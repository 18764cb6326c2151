-- The mean of the highest bids of the auctions of each category, as it changes.
CREATE VIEW open_bids AS
  SELECT STREAM a.id, a.category, b.price
  FROM (SELECT STREAM id, category, date_time, expires FROM auction)
    OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS a
  JOIN (SELECT STREAM auction, price, date_time FROM bid) AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires;
CREATE VIEW highest OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM id, category, MAX(price) AS price FROM open_bids GROUP BY id, category EMIT CHANGES;
CREATE VIEW q4 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM category, AVG(price) AS mean, SUM(price) AS total, COUNT(*) AS auctions
  FROM highest GROUP BY category;
