-- The auctions with the most bids in the last ten seconds, every two seconds.
CREATE VIEW counts AS
  SELECT STREAM HOP_START(ROWTIME, INTERVAL '2' SECOND, INTERVAL '10' SECOND) AS window_start, auction,
    COUNT(*) AS bids
  FROM bid GROUP BY HOP(ROWTIME, INTERVAL '2' SECOND, INTERVAL '10' SECOND), auction;
CREATE VIEW most AS SELECT STREAM MAX(bids) AS bids FROM counts GROUP BY ROWTIME;
CREATE VIEW q5 AS
  SELECT STREAM c.window_start, c.auction, c.bids
  FROM counts OVER (RANGE INTERVAL '0' SECOND PRECEDING) AS c JOIN most AS m ON c.bids = m.bids;
