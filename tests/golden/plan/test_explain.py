"""What EXPLAIN shows for a pipeline with one node of every kind, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.plan.explain import explain
from rowtide.sql.pipeline import SqlSession

GOLDEN = Path(__file__).with_name("explain.txt")
PIPELINE = """
CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'b:9092');
CREATE FOREIGN STREAM f (at TIMESTAMP, k VARCHAR(4), n INTEGER) SERVER broker OPTIONS (topic 'f');
CREATE STREAM s (at TIMESTAMP, k VARCHAR(4), n INTEGER);
CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, low INTEGER);
INSERT INTO t VALUES ('a', 1), ('b', 2);
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, * FROM f WHERE NOT (n > 1 AND k IS NULL OR n IN (3, 4))
  ORDER BY at WITHIN INTERVAL '90' SECOND;
CREATE VIEW around AS
  SELECT STREAM k, SUM(n * 2) OVER w / COUNT(*) OVER w AS mean, LAG(n, 2, 0) OVER (PARTITION BY k) AS older
  FROM s
  WINDOW w AS (PARTITION BY UPPER(k) ORDER BY FLOOR(ROWTIME TO MINUTE) RANGE INTERVAL '10' MINUTE PRECEDING);
CREATE VIEW ahead AS
  SELECT STREAM LEAD(n) OVER (PARTITION BY k) AS next,
    MODE(n) OVER (RANGE BETWEEN CURRENT ROW AND INTERVAL '10' SECOND FOLLOWING) AS usual FROM s;
CREATE VIEW hourly AS
  SELECT STREAM FLOOR(ROWTIME TO HOUR) AS ROWTIME, k, COUNT(*) AS c, SUM(DISTINCT n * 2) + 1 AS total
  FROM (SELECT STREAM * FROM timed UNION ALL SELECT STREAM * FROM s) AS b
  GROUP BY FLOOR(ROWTIME TO HOUR), k HAVING COUNT(*) > 1;
CREATE VIEW joined AS
  SELECT STREAM ROWTIME AS came, CASE WHEN x.n > t.low THEN 'high' ELSE 'low' END AS level,
    (x.n + 1) * 2 - (3 - x.n) AS m, EXTRACT(HOUR FROM x.at) AS h, STEP(x.at BY INTERVAL '5' MINUTE) AS b
  FROM timed AS x LEFT JOIN t ON x.k = t.k;
CREATE VIEW met AS SELECT STREAM x.k, y.n FROM timed OVER (RANGE INTERVAL '1' HOUR PRECEDING) AS x
  FULL JOIN s AS y ON x.k = y.k AND x.n < y.n;
CREATE VIEW tumbling AS SELECT STREAM COUNT(*) AS c FROM s
  GROUP BY TUMBLE(ROWTIME, INTERVAL '5' MINUTE, INTERVAL '6' MINUTE), k;
CREATE VIEW hopping AS SELECT STREAM MAX(n) AS m FROM s
  GROUP BY HOP(ROWTIME, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE), k;
CREATE VIEW sessions AS SELECT STREAM k FROM s GROUP BY SESSION(ROWTIME, INTERVAL '30' SECOND), k;
CREATE MODEL bank AS 'contract.operators.engine_models:Balances' OPTIONS (unlucky '7', split 'true');
CREATE VIEW rich AS SELECT key, total FROM bank.balances WHERE total > 9;
CREATE VIEW running OPTIONS (RETENTION '1 DAY') AS
  SELECT STREAM k, MAX(n) AS n FROM s GROUP BY k EMIT CHANGES;
CREATE VIEW early AS SELECT STREAM k, COUNT(*) AS c FROM s
  GROUP BY FLOOR(ROWTIME TO HOUR), k EMIT CHANGES EVERY INTERVAL '5' MINUTE;
CREATE VIEW of_running OPTIONS (RETENTION 'UNBOUNDED') AS SELECT AVG(n) AS mean FROM running;
CREATE VIEW tables OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT a.low, b.n FROM t AS a FULL JOIN running AS b ON a.k = UPPER(b.k) AND a.low < b.n;
CREATE VIEW first_rows AS SELECT k, low FROM t ORDER BY low DESC, k || 'x' LIMIT 3 OFFSET 1;
CREATE VIEW ranked AS
  SELECT k, RANK() OVER w AS place, LAG(low, 1, 0) OVER w AS above, low * 1e0 / SUM(low) OVER () AS share
  FROM t WINDOW w AS (ORDER BY low DESC);
CREATE VIEW sorted_rows AS SELECT STREAM k, n FROM s ORDER BY FLOOR(ROWTIME TO MINUTE), n + 1 DESC;
CREATE VIEW all_but AS SELECT STREAM DISTINCT ROWTIME, k FROM s EXCEPT SELECT STREAM ROWTIME, k FROM timed;
"""


def shown() -> str:
    """Return the last stage of every view."""
    session = SqlSession()
    session.feed(PIPELINE)
    text = ""
    for name, node in session.stages[-1].relations:
        text += f"{name}:\n" + "".join(f"  {line}\n" for line in explain(node).lines())
    return text


def test_every_kind_of_node_is_explained(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        GOLDEN.write_text(shown(), encoding="utf-8")
    assert shown() == GOLDEN.read_text(encoding="utf-8")
