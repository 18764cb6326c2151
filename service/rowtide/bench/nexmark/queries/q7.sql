-- The highest bids of each ten seconds.
CREATE VIEW highest AS
  SELECT STREAM STEP(ROWTIME BY INTERVAL '10' SECOND) AS window_start, MAX(price) AS price
  FROM bid GROUP BY STEP(ROWTIME BY INTERVAL '10' SECOND);
CREATE VIEW q7 AS
  SELECT STREAM b.auction, b.price, b.bidder, b.date_time, h.ROWTIME AS window_end
  FROM (SELECT STREAM auction, price, bidder, date_time FROM bid)
    OVER (RANGE INTERVAL '10' SECOND PRECEDING) AS b
  JOIN highest AS h ON b.price = h.price;
