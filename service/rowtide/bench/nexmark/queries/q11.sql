-- Bids of each bidder's sessions, ten seconds apart.
CREATE VIEW q11 AS
  SELECT STREAM bidder, COUNT(*) AS bids, SESSION_START(ROWTIME, INTERVAL '10' SECOND) AS starts,
    SESSION_END(ROWTIME, INTERVAL '10' SECOND) AS ends
  FROM bid GROUP BY SESSION(ROWTIME, INTERVAL '10' SECOND), bidder;
