CREATE STREAM reports (
  vid INTEGER NOT NULL, spd INTEGER NOT NULL, xway INTEGER NOT NULL, lane INTEGER NOT NULL,
  dir INTEGER NOT NULL, seg INTEGER NOT NULL, pos INTEGER NOT NULL
);
CREATE STREAM balance_requests (vid INTEGER NOT NULL, qid INTEGER NOT NULL);
CREATE STREAM expenditure_requests (
  vid INTEGER NOT NULL, xway INTEGER NOT NULL, qid INTEGER NOT NULL, "DAY" INTEGER NOT NULL
);
CREATE TABLE history (
  vid INTEGER, "DAY" INTEGER, xway INTEGER, toll INTEGER NOT NULL, PRIMARY KEY (vid, "DAY", xway)
);

-- What the cars of a segment did in a minute, known when it is over.
CREATE VIEW cars AS
  SELECT STREAM xway, dir, seg, vid, AVG(CAST(spd AS DOUBLE)) AS spd
  FROM reports GROUP BY FLOOR(reports.ROWTIME TO MINUTE), xway, dir, seg, vid;
CREATE VIEW segments AS
  SELECT STREAM xway, dir, seg, COUNT(*) AS cars, AVG(spd) AS spd
  FROM cars GROUP BY cars.ROWTIME, xway, dir, seg;

-- Each report with what the one before of its vehicle says, and whether the last four say that it stands.
CREATE VIEW followed AS
  SELECT STREAM *,
    LAG(reports.ROWTIME) OVER vehicle AS time_before,
    LAG(seg) OVER vehicle AS seg_before,
    lane BETWEEN 1 AND 3 AND COUNT(*) OVER last_four = 4
      AND MIN(xway) OVER last_four = MAX(xway) OVER last_four AND MIN(lane) OVER last_four = MAX(lane) OVER last_four
      AND MIN(pos) OVER last_four = MAX(pos) OVER last_four AND MIN(dir) OVER last_four = MAX(dir) OVER last_four
      AS stands
  FROM reports
  WINDOW vehicle AS (PARTITION BY vid ROWS UNBOUNDED PRECEDING),
    last_four AS (PARTITION BY vid ROWS 3 PRECEDING);
CREATE VIEW trips AS
  SELECT STREAM *,
    time_before IS NULL OR (lane = 0 AND followed.ROWTIME - time_before > INTERVAL '60' SECOND) AS begins
  FROM followed;

-- Where vehicles stand, and where two or more do: accidents, until all but one have moved.
CREATE TABLE vehicles (
  vid INTEGER PRIMARY KEY, stands BOOLEAN, xway INTEGER, dir INTEGER, seg INTEGER, lane INTEGER, pos INTEGER
);
CREATE PUMP follow STARTED AS
  INSERT INTO vehicles SELECT STREAM vid, stands, xway, dir, seg, lane, pos FROM trips;
CREATE VIEW places AS
  SELECT xway, dir, seg, lane, pos, COUNT(*) AS vehicles
  FROM vehicles WHERE stands GROUP BY xway, dir, seg, lane, pos;
CREATE VIEW accidents AS
  SELECT xway, dir, seg, COUNT(*) AS places FROM places WHERE vehicles >= 2 GROUP BY xway, dir, seg;

-- Segments with an accident at some second of a minute, known when it is over: one that was there when
-- the minute began, or one that a vehicle which stands reports in it.
CREATE VIEW seen AS
  SELECT STREAM segments.xway, segments.dir, segments.seg FROM segments JOIN accidents
    ON segments.xway = accidents.xway AND segments.dir = accidents.dir AND segments.seg = accidents.seg
  UNION ALL
  SELECT STREAM trips.xway, trips.dir, trips.seg FROM trips JOIN accidents
    ON trips.xway = accidents.xway AND trips.dir = accidents.dir AND trips.seg = accidents.seg
  WHERE trips.stands;
CREATE VIEW blocked AS
  SELECT STREAM xway, dir, seg, COUNT(*) AS times
  FROM seen GROUP BY FLOOR(seen.ROWTIME TO MINUTE), xway, dir, seg;

-- Vehicles that come into a segment, with what the minutes before say of it.
CREATE VIEW entries AS
  SELECT STREAM *, 1 - 2 * dir AS ahead FROM trips WHERE begins OR seg <> seg_before;
CREATE VIEW rated AS
  SELECT STREAM vid, xway, lane, dir, seg, ahead, begins,
    (SELECT AVG(m.spd) FROM segments OVER (RANGE INTERVAL '5' MINUTE PRECEDING) AS m
      WHERE m.xway = e.xway AND m.dir = e.dir AND m.seg = e.seg AND m.ROWTIME > e.ROWTIME - INTERVAL '5' MINUTE) AS lav,
    (SELECT MAX(m.cars) FROM segments OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS m
      WHERE m.xway = e.xway AND m.dir = e.dir AND m.seg = e.seg AND m.ROWTIME > e.ROWTIME - INTERVAL '1' MINUTE) AS cars,
    (SELECT MIN((b.seg - e.seg) * e.ahead) FROM blocked OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS b
      WHERE b.xway = e.xway AND b.dir = e.dir AND (b.seg - e.seg) * e.ahead BETWEEN 0 AND 4
        AND b.ROWTIME > e.ROWTIME - INTERVAL '1' MINUTE) AS away
  FROM entries AS e;
CREATE VIEW tolled AS
  SELECT STREAM vid, xway, lane, dir, seg, begins, seg + away * ahead AS accident_seg,
    CASE WHEN lav IS NULL THEN -1 ELSE CAST(FLOOR(lav) AS INTEGER) END AS lav,
    CASE WHEN lav < 40 AND cars > 50 AND away IS NULL THEN CAST(2 * (cars - 50) * (cars - 50) AS INTEGER) ELSE 0 END AS toll
  FROM rated;
CREATE VIEW notices AS SELECT STREAM vid, lav, toll FROM tolled WHERE lane <> 4;
CREATE VIEW alerts AS
  SELECT STREAM xway, accident_seg, dir, vid FROM tolled WHERE lane <> 4 AND accident_seg IS NOT NULL;

-- A toll is charged when the vehicle leaves the segment for another one of the same trip.
CREATE VIEW charged AS
  SELECT STREAM vid, begins, LAG(toll) OVER (PARTITION BY vid ROWS UNBOUNDED PRECEDING) AS toll FROM tolled;
CREATE VIEW charges AS SELECT STREAM vid, toll FROM charged WHERE toll > 0 AND NOT begins;
CREATE VIEW accounts OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM vid, SUM(toll) AS balance FROM charges GROUP BY vid EMIT CHANGES;

CREATE VIEW balances AS
  SELECT STREAM r.qid, r.vid, COALESCE(a.balance, 0) AS balance
  FROM balance_requests AS r LEFT JOIN accounts AS a ON r.vid = a.vid;
CREATE VIEW expenditures AS
  SELECT STREAM r.qid, COALESCE(h.toll, 0) AS toll
  FROM expenditure_requests AS r LEFT JOIN history AS h ON r.vid = h.vid AND r."DAY" = h."DAY" AND r.xway = h.xway;
