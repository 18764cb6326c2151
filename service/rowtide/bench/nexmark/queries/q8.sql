-- Persons who registered and opened an auction in the same ten seconds.
CREATE VIEW registered AS
  SELECT STREAM STEP(ROWTIME BY INTERVAL '10' SECOND) AS window_start, id, name
  FROM person GROUP BY STEP(ROWTIME BY INTERVAL '10' SECOND), id, name;
CREATE VIEW selling AS
  SELECT STREAM STEP(ROWTIME BY INTERVAL '10' SECOND) AS window_start, seller
  FROM auction GROUP BY STEP(ROWTIME BY INTERVAL '10' SECOND), seller;
CREATE VIEW q8 AS
  SELECT STREAM p.id, p.name, p.window_start
  FROM registered OVER (RANGE INTERVAL '0' SECOND PRECEDING) AS p JOIN selling AS a ON p.id = a.seller;
