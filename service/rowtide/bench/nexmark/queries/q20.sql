-- Bids with their auctions, of category 10; either may come first, at any time.
CREATE VIEW q20 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name,
    a.description, a.initial_bid, a.reserve, a.opened, a.expires, a.seller, a.category
  FROM bid AS b
  JOIN (SELECT STREAM id, item_name, description, initial_bid, reserve, date_time AS opened, expires, seller,
      category FROM auction WHERE category = 10) AS a ON b.auction = a.id;
