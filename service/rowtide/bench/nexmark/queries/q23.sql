-- Bids with their bidders and all auctions of these; each may come first, at any time.
CREATE VIEW by_persons OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM b.auction AS bid_auction, b.bidder, b.price, b.date_time AS bid_time, p.id AS person_id, p.name,
    p.email_address, p.credit_card, p.city, p.state
  FROM bid AS b JOIN person AS p ON b.bidder = p.id;
CREATE VIEW q23 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM x.*, a.id AS auction_id, a.item_name, a.description, a.initial_bid, a.reserve, a.expires, a.category
  FROM by_persons AS x JOIN auction AS a ON x.bidder = a.seller;
