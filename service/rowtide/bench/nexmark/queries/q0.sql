-- Pass-through.
CREATE VIEW q0 AS SELECT STREAM auction, bidder, price, date_time, extra FROM bid;
