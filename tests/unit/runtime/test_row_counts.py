"""The counts of a relation count each row once, however many steps the relation takes."""

import random
from collections import Counter

import pytest

from rowtide.flow.flow import Flow
from rowtide.metrics import Metrics
from rowtide.operators.contract import RowCounts
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runtime.live.observing import MetricsObserver
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.pipeline_state import SOURCE_PART
from rowtide.sql.pipeline import SqlSession, plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, fill

STREAM = "CREATE STREAM r (name VARCHAR(8), amount BIGINT);\n"
ROWS = [(minute * 60_000, ("ab"[minute % 2], minute)) for minute in range(10)]


@pytest.mark.parametrize(
    ("view", "counts"),
    [
        ("SELECT STREAM name, amount + 1 AS more FROM r", RowCounts(rows_in=10, done=10, rows_out=10)),
        ("SELECT STREAM * FROM r WHERE amount > 3", RowCounts(rows_in=10, done=6, filtered=4, rows_out=6)),
        (
            "SELECT STREAM name, COUNT(*) AS n FROM r WHERE amount > 3 GROUP BY name, FLOOR(r.ROWTIME TO HOUR)",
            RowCounts(rows_in=10, done=6, filtered=4, rows_out=2),
        ),
        (
            "SELECT STREAM name FROM r GROUP BY name, FLOOR(r.ROWTIME TO HOUR) HAVING MAX(amount) > 8",
            RowCounts(rows_in=10, done=10, filtered=1, rows_out=1),
        ),
    ],
)
def test_a_view_counts_rows_as_they_enter_and_as_they_leave(view: str, counts: RowCounts) -> None:
    session = SqlSession()
    session.feed(f"{STREAM}CREATE VIEW v AS {view};")
    flow = Flow({"Q": session.query("SELECT STREAM * FROM v")}, {"R": [0, 1]})
    for partition in (0, 1):
        rows = ROWS[partition::2]
        origin = flow.origin("R", partition)
        timed = [TimedRow(at, origin, at, Opcode.INSERT, row) for at, row in rows]
        flow.insert("R", partition, Tray.from_rows(flow.source_type("R"), timed))
        flow.bound("R", partition, Bound(LATEST))
    flow.drain()
    counted = flow.counts()
    assert counted.by_relation["V"] == counts
    assert counted.held == sum(each.held for each in counted.by_relation.values()) == 0


def test_the_metrics_of_a_relation_are_those_of_its_ends() -> None:
    world = World(InMemoryTopic("readings", 2))
    fill(world.topic, random.Random(1), 60)
    metrics = Metrics()
    Service(world.context(observer=MetricsObserver(metrics, world.clock, "1"))).run(until_end=True)

    def value(metric: str, relation: str = "READINGS") -> float:
        found = metrics.registry.get_sample_value(f"rowtide_rows_{metric}", {"relation": relation})
        assert found is not None
        return found

    # READINGS is a t-sort of each partition and the merge behind them, which counts their rows once more.
    accounts = {(each.part, each.relation): each for each in world.context().ledger.accounts()}
    assert value("in_total") == accounts[SOURCE_PART, "READINGS"].done
    assert value("out_total") == value("in_total") - value("late_total") - value("held")
    assert value("in_total", "MINUTES_OF") == value("out_total")


HEAD = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');
CREATE FOREIGN STREAM s (n INTEGER) SERVER k OPTIONS (topic 's', format 'JSON');
CREATE FOREIGN STREAM t (n INTEGER) SERVER k OPTIONS (topic 't', format 'JSON');
CREATE FOREIGN TABLE one (n INTEGER, PRIMARY KEY (n)) SERVER d;
"""
UNIONS = {
    "several pumps": """
CREATE PUMP p STARTED AS INSERT INTO one SELECT STREAM n FROM s;
CREATE PUMP q STARTED AS INSERT INTO one SELECT STREAM n FROM t;""",
    "a foreign key": """
CREATE FOREIGN TABLE other (n INTEGER, PRIMARY KEY (n), FOREIGN KEY (n) REFERENCES one) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO one SELECT STREAM n FROM s;
CREATE PUMP q STARTED AS INSERT INTO other SELECT STREAM n FROM t;""",
}


@pytest.mark.parametrize("pumps", UNIONS)
@pytest.mark.parametrize("rows", [1, 100])
def test_a_table_behind_a_union_of_its_name_counts_its_rows_once(pumps: str, rows: int) -> None:
    topics = {name: InMemoryTopic(name.lower(), 1) for name in ("S", "T")}
    world = World(topics["S"], plan=plan_pipeline(HEAD + UNIONS[pumps]))
    held: Counter[str] = Counter()
    for run in range(2):
        for number in range(6 * run, 6 * run + 6):
            for topic in topics.values():
                topic.add(0, 1_000 * number, b'{"n":%d}' % number)
        metrics = Metrics()
        observer = MetricsObserver(metrics, world.clock, "1")
        pace = Pace(10**9, rows, None, None)
        context = world.context(sources=topics, observer=observer, pace=pace, poll_messages=rows)
        Service(context).run(until_end=True)

        def value(metric: str, table: str, of: Metrics = metrics) -> float:
            found = of.registry.get_sample_value(f"rowtide_rows_{metric}", {"relation": table})
            assert found is not None
            return found

        for table in ("ONE", "OTHER") if pumps == "a foreign key" else ("ONE",):
            assert value("in_total", table) == (12 if pumps == "several pumps" else 6)
            assert value("rejected_total", table) == value("out_total", table) == 0
            done = value("done_total", table)
            assert done > 0
            assert value("in_total", table) + held[table] == done + value("held", table)
            held[table] = int(value("held", table))
