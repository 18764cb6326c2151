-- Prices in euros.
CREATE VIEW q1 AS SELECT STREAM auction, bidder, price * 0.908 AS price, date_time, extra FROM bid;
