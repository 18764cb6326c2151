"""Workloads: pipelines that have every operator between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rowtide.plan.plan import Plan
from rowtide.sql.pipeline import plan_pipeline

PIPELINE = "simulated"

_STREAMS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, at TIMESTAMP, sensor VARCHAR(8), amount BIGINT,
    parts VARCHAR(100))
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number, sensor, amount, parts FROM readings
  ORDER BY at WITHIN INTERVAL '2' SECOND;
"""
_SECOND_STREAM = """
CREATE FOREIGN STREAM limits (number BIGINT NOT NULL, at TIMESTAMP, sensor VARCHAR(8), amount BIGINT,
    parts VARCHAR(100))
  SERVER k OPTIONS (topic 'limits', format 'JSON');
"""
_SENSORS = """
CREATE TABLE sensors (sensor VARCHAR(8) PRIMARY KEY, amount BIGINT, number BIGINT)
  SERVER k OPTIONS (topic 'sensors', format 'DEBEZIUM_JSON');
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline in SQL over the streams above."""

    name: str
    sql: str
    ddl: tuple[str, ...] = ()
    """Tables that are there before the pipeline, with constraints of their own."""
    statements: tuple[str, ...] = ()
    """Statements that are sent while it runs, in this order; some fail."""
    is_first: bool = False
    """The first process finds an empty database, without the tables of the checkpoint."""


_ALL = (
    Workload(
        "groups",
        _STREAMS
        + """
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, last BIGINT) SERVER d;
CREATE FOREIGN TABLE direct (at TIMESTAMP, number BIGINT) SERVER d;
CREATE PUMP p1 AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), sensor, COUNT(*), LAST_VALUE(number)
  FROM timed GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP p2 AS INSERT INTO direct SELECT STREAM ROWTIME AS at, number FROM readings;
""",
        is_first=True,
    ),
    Workload(
        "windows",
        _STREAMS
        + """
CREATE FOREIGN TABLE hops (period TIMESTAMP, n BIGINT) SERVER d;
CREATE FOREIGN TABLE grown (period TIMESTAMP, sensor VARCHAR(8), n BIGINT) SERVER d;
CREATE FOREIGN TABLE visits (first TIMESTAMP, sensor VARCHAR(8), n BIGINT) SERVER d;
CREATE FOREIGN TABLE frames (number BIGINT, near BIGINT, ahead BIGINT, so_far BIGINT) SERVER d;
CREATE FOREIGN TABLE averages (number BIGINT, total BIGINT) SERVER d;
CREATE FOREIGN TABLE longest (number BIGINT, amount BIGINT) SERVER d;
CREATE PUMP p1 AS INSERT INTO hops
  SELECT STREAM HOP_START(ROWTIME, INTERVAL '10' SECOND, INTERVAL '30' SECOND), COUNT(*)
  FROM timed GROUP BY HOP(ROWTIME, INTERVAL '10' SECOND, INTERVAL '30' SECOND);
CREATE PUMP p2 AS INSERT INTO grown
  SELECT STREAM CUMULATE_END(ROWTIME, INTERVAL '10' SECOND, INTERVAL '30' SECOND), sensor, SUM(amount)
  FROM timed GROUP BY CUMULATE(ROWTIME, INTERVAL '10' SECOND, INTERVAL '30' SECOND), sensor;
CREATE PUMP p3 AS INSERT INTO visits
  SELECT STREAM SESSION_START(ROWTIME, INTERVAL '8' SECOND), sensor, COUNT(*)
  FROM timed GROUP BY SESSION(ROWTIME, INTERVAL '8' SECOND), sensor;
CREATE PUMP p4 AS INSERT INTO frames
  SELECT STREAM number, SUM(amount) OVER (RANGE BETWEEN CURRENT ROW AND INTERVAL '10' SECOND FOLLOWING),
    MAX(amount) OVER (RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND INTERVAL '30' SECOND FOLLOWING),
    COUNT(*) OVER (PARTITION BY sensor ROWS 1 PRECEDING) FROM timed;
CREATE PUMP p5 AS INSERT INTO averages
  SELECT STREAM number, SUM(amount) OVER (PARTITION BY sensor RANGE INTERVAL '20' SECOND PRECEDING) FROM timed;
CREATE PUMP p6 AS INSERT INTO longest
  SELECT STREAM number, amount FROM timed ORDER BY FLOOR(timed.ROWTIME TO MINUTE), amount DESC;
""",
    ),
    Workload(
        "changes",
        _STREAMS
        + """
CREATE TABLE latest (sensor VARCHAR(8) PRIMARY KEY, number BIGINT, amount BIGINT UNIQUE);
CREATE PUMP p1 AS INSERT INTO latest SELECT STREAM sensor, number, amount FROM timed;
CREATE FOREIGN TABLE kept (sensor VARCHAR(8) PRIMARY KEY, number BIGINT, amount BIGINT) SERVER d;
CREATE PUMP p2 AS INSERT INTO kept SELECT sensor, number, amount FROM latest;
CREATE FOREIGN TABLE totals (sensor VARCHAR(8) PRIMARY KEY, n BIGINT, amount BIGINT) SERVER d;
CREATE PUMP p3 OPTIONS (RETENTION 'UNBOUNDED') AS INSERT INTO totals
  SELECT STREAM sensor, COUNT(*), SUM(amount) FROM timed GROUP BY sensor EMIT CHANGES;
CREATE FOREIGN TABLE by_amount (tens BIGINT PRIMARY KEY, n BIGINT) SERVER d;
CREATE PUMP p4 AS INSERT INTO by_amount SELECT amount / 10, COUNT(*) FROM latest GROUP BY amount / 10;
CREATE FOREIGN TABLE best (sensor VARCHAR(8) PRIMARY KEY, amount BIGINT) SERVER d;
CREATE PUMP p5 AS INSERT INTO best
  SELECT sensor, amount FROM latest ORDER BY amount DESC NULLS LAST LIMIT 2;
CREATE FOREIGN TABLE numbered (n BIGINT PRIMARY KEY, sensor VARCHAR(8)) SERVER d;
CREATE PUMP p6 AS INSERT INTO numbered SELECT n, sensor FROM (
  SELECT sensor, ROW_NUMBER() OVER (ORDER BY amount DESC NULLS LAST, sensor) AS n FROM latest) AS r WHERE r.n <= 2;
CREATE FOREIGN TABLE shares (sensor VARCHAR(8) PRIMARY KEY, place BIGINT, total BIGINT) SERVER d;
CREATE PUMP shared AS INSERT INTO shares
  SELECT sensor, RANK() OVER (ORDER BY amount DESC), SUM(amount) OVER (PARTITION BY number / 10) FROM latest;
CREATE FOREIGN TABLE pieces (number BIGINT, place BIGINT, part VARCHAR(8)) SERVER d;
CREATE PUMP p7 AS INSERT INTO pieces
  SELECT STREAM r.number, p.place, p.part FROM timed AS r
  CROSS JOIN JSON_TABLE(r.parts, '$[*]' COLUMNS (place FOR ORDINALITY, part VARCHAR(8) PATH '$')) AS p;
CREATE FOREIGN TABLE half (number BIGINT) SERVER d;
CREATE PUMP p8 AS INSERT INTO half SELECT STREAM number FROM timed TABLESAMPLE HASH (50, number);
CREATE FOREIGN TABLE without (place BIGINT PRIMARY KEY, n BIGINT) SERVER d;
CREATE PUMP p9 AS INSERT INTO without SELECT place, COUNT(*) FROM (
  SELECT number / 4 AS place FROM latest EXCEPT ALL SELECT number / 8 FROM latest) AS rest GROUP BY place;
""",
    ),
    Workload(
        "joins",
        _STREAMS
        + _SECOND_STREAM
        + _SENSORS
        + """
CREATE TABLE owners (sensor VARCHAR(8) PRIMARY KEY, owner VARCHAR(8));
INSERT INTO owners VALUES ('s0', 'ann'), ('s1', 'bob');
CREATE FOREIGN TABLE met (number BIGINT, other BIGINT) SERVER d;
CREATE PUMP p1 AS INSERT INTO met
  SELECT STREAM r.number, l.number FROM readings OVER (RANGE INTERVAL '5' SECOND PRECEDING) AS r
  LEFT JOIN limits AS l ON r.sensor = l.sensor;
CREATE FOREIGN TABLE known (number BIGINT, amount BIGINT) SERVER d;
CREATE PUMP p2 AS INSERT INTO known
  SELECT STREAM r.number, s.amount FROM readings AS r LEFT JOIN sensors AS s ON r.sensor = s.sensor;
CREATE FOREIGN TABLE owned (number BIGINT, owner VARCHAR(8)) SERVER d;
CREATE PUMP p3 AS INSERT INTO owned
  SELECT STREAM r.number, o.owner FROM readings AS r
  LEFT JOIN owners AS o ON r.amount > 20 AND CAST('s' || CAST(r.amount / 50 AS VARCHAR(4)) AS VARCHAR(8)) = o.sensor;
CREATE FOREIGN TABLE paired (sensor VARCHAR(8) PRIMARY KEY, amount BIGINT, owner VARCHAR(8)) SERVER d;
CREATE PUMP p4 AS INSERT INTO paired
  SELECT s.sensor, s.amount, o.owner FROM sensors AS s LEFT JOIN owners AS o ON s.sensor = o.sensor;
""",
    ),
    Workload(
        "statements",
        _STREAMS
        + _SENSORS
        + """
CREATE TABLE owners (sensor VARCHAR(8) PRIMARY KEY, owner VARCHAR(8), n BIGINT CHECK (n >= 0));
INSERT INTO owners VALUES ('s0', 'ann', 0), ('s1', 'bob', 0);
CREATE TABLE towns (owner VARCHAR(8), town VARCHAR(8));
CREATE FOREIGN TABLE owned (number BIGINT, owner VARCHAR(8), n BIGINT) SERVER d;
CREATE PUMP p1 AS INSERT INTO owned
  SELECT STREAM r.number, o.owner, o.n FROM timed AS r LEFT JOIN owners AS o ON r.sensor = o.sensor;
CREATE FOREIGN TABLE paired (sensor VARCHAR(8) PRIMARY KEY, amount BIGINT, owner VARCHAR(8)) SERVER d;
CREATE PUMP p2 AS INSERT INTO paired
  SELECT s.sensor, s.amount, o.owner FROM sensors AS s LEFT JOIN owners AS o ON s.sensor = o.sensor;
CREATE FOREIGN TABLE lived (town VARCHAR(8) PRIMARY KEY, n BIGINT) SERVER d;
CREATE PUMP p3 AS INSERT INTO lived
  SELECT t.town, SUM(o.n) FROM owners AS o JOIN towns AS t ON o.owner = t.owner GROUP BY t.town;
""",
        statements=(
            "INSERT INTO towns VALUES ('ann', 'ulm'), ('bob', 'ulm'), ('cat', 'bonn')",
            "UPDATE owners SET n = n + 1",
            "INSERT INTO owners VALUES ('s2', 'cat', 5); DELETE FROM towns WHERE owner = 'bob'",
            "UPDATE owners SET n = 1 / (n - n)",
            "UPDATE owners SET n = n + 1, owner = 'dan' WHERE sensor = 's1'",
            "MERGE INTO owners AS o USING (VALUES ('s0'), ('s3')) AS v (sensor) ON o.sensor = v.sensor "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v.sensor, 'eve', 9)",
            "TRUNCATE towns",
            "UPDATE owners SET n = n + 1",
        ),
    ),
    Workload(
        "models",
        _STREAMS
        + """
CREATE MODEL smooth AS 'simulation.smoothed:Smoothed';
CREATE PUMP p1 AS INSERT INTO smooth.readings SELECT STREAM sensor, amount FROM timed WHERE amount > 10;
CREATE FOREIGN TABLE smoothed (sensor VARCHAR(8), amount DOUBLE) SERVER d;
CREATE PUMP p2 AS INSERT INTO smoothed SELECT STREAM sensor, amount FROM smooth.smoothed;
CREATE FUNCTION lines(x DOUBLE, step INTERVAL DAY TO SECOND, longest INTERVAL DAY TO SECOND)
  RETURNS TABLE (at TIMESTAMP, x DOUBLE) LANGUAGE PYTHON AS 'rowtide.functions.interpolation.Linear';
CREATE FOREIGN TABLE between_them (sensor VARCHAR(8), at TIMESTAMP, x DOUBLE) SERVER d;
CREATE PUMP p3 OPTIONS (RETENTION '20 SECOND') AS INSERT INTO between_them
  SELECT STREAM * FROM TABLE(lines(CURSOR(SELECT STREAM sensor, amount FROM timed) PARTITION BY sensor,
    INTERVAL '2' SECOND, INTERVAL '1' MINUTE)) AS l;
""",
    ),
    Workload(
        "refused",
        _STREAMS
        + """
CREATE FOREIGN TABLE small (number BIGINT PRIMARY KEY, amount BIGINT) SERVER d;
CREATE PUMP p1 AS INSERT INTO small SELECT STREAM number, amount FROM timed;
CREATE FOREIGN TABLE divided (number BIGINT, amount BIGINT) SERVER d;
CREATE PUMP p2 AS INSERT INTO divided SELECT STREAM number, 100 / (amount - 50) FROM timed;
""",
        ddl=("create table small (number bigint primary key, amount bigint check (amount < 80))",),
    ),
)
WORKLOADS = {each.name: each for each in _ALL}


@cache
def planned(workload: Workload) -> Plan:
    """Return the plan of a workload."""
    return plan_pipeline(workload.sql)
