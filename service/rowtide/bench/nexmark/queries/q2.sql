-- Bids on some auctions.
CREATE VIEW q2 AS SELECT STREAM auction, price FROM bid WHERE auction % 123 = 0;
