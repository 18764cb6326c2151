-- Bids of each bidder in ten seconds, by the bids' own time.
CREATE VIEW q12 AS
  SELECT STREAM bidder, COUNT(*) AS bids, STEP(ROWTIME BY INTERVAL '10' SECOND) AS starts
  FROM bid GROUP BY STEP(ROWTIME BY INTERVAL '10' SECOND), bidder;
