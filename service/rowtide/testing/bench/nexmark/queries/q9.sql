-- The winning bid of each auction, of each day.
CREATE VIEW valid_bids AS
  SELECT STREAM a.*, b.bidder, b.price, b.date_time AS bid_time
  FROM auction OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS a
  JOIN (SELECT STREAM auction, bidder, price, date_time FROM bid) AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires;
CREATE VIEW q9 AS
  SELECT STREAM id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, bidder,
    price, bid_time
  FROM (SELECT STREAM *,
      ROW_NUMBER() OVER (PARTITION BY FLOOR(ROWTIME TO DAY), id ORDER BY price DESC, bid_time) AS place
    FROM valid_bids) AS r
  WHERE place = 1;
