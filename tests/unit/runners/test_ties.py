"""Which segments of a backfill may be split by key: those behind which nothing minds the order of ties."""

from __future__ import annotations

import pytest

from rowtide.flow.program import Program
from rowtide.flow.segments import segments
from rowtide.plan.nodes import GroupByPeriod
from rowtide.runners.spark.spreading import may_be_split
from rowtide.sql.pipeline import plan_pipeline

GROUPS = """
CREATE STREAM s (k VARCHAR(4), j INTEGER, n INTEGER);
CREATE TABLE latest (k VARCHAR(4) PRIMARY KEY, total BIGINT);
CREATE TABLE kinds (k VARCHAR(4) PRIMARY KEY, kind INTEGER);
INSERT INTO kinds VALUES ('a', 1);
CREATE VIEW totals AS
  SELECT STREAM k, j, SUM(n) AS total FROM s GROUP BY FLOOR(ROWTIME TO MINUTE), k, j;
"""


def is_split(sql: str, key: tuple[int, ...] | None = None) -> bool:
    """Return it of the groups of ``totals``; ``key`` is that of the table that takes the view ``v``."""
    plan = plan_pipeline(GROUPS + sql)
    program = Program({"V": dict(plan.relations)["V"]}, {"S": (0, 1)})
    folded = {} if key is None else {"V": key}
    (totals,) = (
        at
        for at, step in enumerate(program.steps)
        if isinstance(step.node, GroupByPeriod) and step.node.relation == "TOTALS"
    )
    (segment,) = (each for each in segments(program) if totals in each.steps)
    return may_be_split(program, segment, folded)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT STREAM * FROM totals",
        "SELECT STREAM k, total + 1 AS t FROM totals WHERE total > 2",
        "SELECT STREAM COUNT(*) AS c, AVG(total) AS m FROM totals AS t GROUP BY FLOOR(t.ROWTIME TO HOUR)",
        "SELECT STREAM k, j, FIRST_VALUE(total) AS f FROM totals GROUP BY FLOOR(ROWTIME TO HOUR), k, j",
        "SELECT STREAM k, LAG(total) OVER (PARTITION BY j, k) AS before FROM totals",
        "SELECT STREAM t.k, x.kind FROM totals AS t JOIN kinds AS x ON t.k = x.k",
        "SELECT STREAM FLOOR(ROWTIME TO HOUR) AS ROWTIME, total FROM totals",
    ],
)
def test_what_counts_adds_or_goes_by_the_same_key_does_not_mind(query: str) -> None:
    assert is_split(f"CREATE VIEW v AS {query};")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT STREAM k, LAG(total) OVER (PARTITION BY k) AS before FROM totals",
        "SELECT STREAM k, LAG(total) OVER (PARTITION BY j, k || 'x') AS before FROM totals",
        "SELECT STREAM ROW_NUMBER() OVER (ORDER BY ROWTIME) AS r FROM totals",
        "SELECT STREAM k, LAST_VALUE(total) AS l FROM totals AS t GROUP BY FLOOR(t.ROWTIME TO HOUR), k",
        "SELECT STREAM LISTAGG(k) AS l FROM totals AS t GROUP BY FLOOR(t.ROWTIME TO HOUR)",
        "SELECT STREAM k, COUNT(*) AS c FROM totals GROUP BY k EMIT CHANGES",
        "SELECT STREAM ROWTIME - CAST(j AS INTERVAL SECOND) AS ROWTIME, total FROM totals",
        "SELECT STREAM k FROM totals ORDER BY FLOOR(ROWTIME TO HOUR), total LIMIT 3",
        "SELECT STREAM c, LAG(c) OVER (ORDER BY ROWTIME) AS before FROM "
        "(SELECT STREAM k, COUNT(*) AS c FROM totals AS t GROUP BY FLOOR(t.ROWTIME TO HOUR), k) AS x",
    ],
)
def test_what_looks_at_rows_of_several_keys_in_their_order_minds(query: str) -> None:
    assert not is_split(f"CREATE VIEW v OPTIONS (RETENTION '1 DAY') AS {query};")


@pytest.mark.parametrize(("key", "wanted"), [((0, 1), True), ((0, 1, 2), True), ((0,), False), ((), True)])
def test_a_table_minds_where_rows_of_several_keys_are_one_of_its(key: tuple[int, ...], wanted: bool) -> None:
    assert is_split("CREATE VIEW v AS SELECT STREAM k, j, total FROM totals;", key) is wanted
