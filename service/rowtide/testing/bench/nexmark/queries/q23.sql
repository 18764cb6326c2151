-- Bids with their bidders and all auctions of these; each may come first, by up to a year.
CREATE VIEW by_persons AS
  SELECT STREAM b.auction AS bid_auction, b.bidder, b.price, b.date_time AS bid_time, p.id AS person_id, p.name,
    p.email_address, p.credit_card, p.city, p.state
  FROM bid OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS b
  JOIN person OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS p ON b.bidder = p.id;
CREATE VIEW q23 AS
  SELECT STREAM x.*, a.id AS auction_id, a.item_name, a.description, a.initial_bid, a.reserve, a.expires, a.category
  FROM by_persons OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS x
  JOIN auction OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS a ON x.bidder = a.seller;
