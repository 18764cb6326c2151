"""Why a row is there: the messages after it, the operators between, bounds and decisions it waited for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.inspect.why import why
from rowtide.runtime.inspect.why_answer import ExplanationAnswer, RowQuestion
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from support.runtime import World

HEAD = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');
CREATE FOREIGN STREAM clicks (k VARCHAR(8), n INTEGER) SERVER k OPTIONS (topic 'clicks'{});
CREATE FOREIGN STREAM views (k VARCHAR(8), n INTEGER) SERVER k OPTIONS (topic 'views');
"""


class Ran:
    """A pipeline that has read its topics to the end; rows are (partition, second, k, n)."""

    def __init__(
        self,
        sql: str,
        clicks: Sequence[tuple[int, int, str, int]],
        views: Sequence[tuple[int, int, str, int]] = (),
    ) -> None:
        plan = plan_pipeline(HEAD.format("") + sql)
        self.topics = {}
        for name, rows in (("clicks", clicks), ("views", views)):
            topic = InMemoryTopic(name, 1 + max((row[0] for row in rows), default=0))
            for partition, second, k, n in rows:
                topic.add(partition, 1_000 * second, b'{"k":"%s","n":%d}' % (k.encode(), n))
            if name.upper() in sql.upper():
                self.topics[name.upper()] = topic
        self.world = World(next(iter(self.topics.values())), plan=plan)
        self.run()

    def run(self) -> None:
        context = self.world.context(sources=self.topics, pace=Pace(100, 3, 2, None))
        Service(context).run(until_end=True)

    def why(self, relation: str, rowtime: int | None = None, **values: object) -> ExplanationAnswer:
        plan = self.world.plan
        types = {table.name: table.row_type for table in plan.foreign_tables}
        types |= {name: node.row_type for name, node in plan.relations}
        fields = {types[relation].names.index(name.upper()): value for name, value in values.items()}
        return why(self.world.context(sources=self.topics), relation, RowQuestion(fields, rowtime))


def messages(found: ExplanationAnswer) -> list[tuple[str, int, int]]:
    return [(each.relation, each.partition, each.offset) for each in found.inputs]


PER_MINUTE = """
CREATE FOREIGN TABLE out (period TIMESTAMP, k VARCHAR(8), total BIGINT, PRIMARY KEY (period, k)) SERVER d;
CREATE VIEW per_minute AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, k, SUM(n) AS total
  FROM clicks GROUP BY FLOOR(ROWTIME TO MINUTE), k;
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM period, k, total * 10 AS total FROM per_minute;
"""


def test_a_group_is_told_by_its_messages_and_by_what_closed_it() -> None:
    ran = Ran(
        PER_MINUTE,
        [(0, 5, "a", 1), (0, 6, "b", 2), (1, 7, "a", 4), (1, 61, "a", 8), (0, 20, "a", 16), (0, 75, "c", 1)],
    )
    found = ran.why("OUT", k="a", period=0)
    assert found.row == {"PERIOD": "1970-01-01 00:00:00.000", "K": "a", "TOTAL": 210}
    assert found.rowtime == 60_000
    assert messages(found) == [("CLICKS", 0, 0), ("CLICKS", 0, 2), ("CLICKS", 1, 0)]
    assert found.inputs[1].row == {"K": "a", "N": 16}
    (group,) = found.made_of
    assert (group.relation, group.operator, group.rows) == ("PER_MINUTE", "PER_MINUTE GroupByPeriod", 3)
    closed = [(each.partition, each.needs, each.by, each.offset) for each in found.releases]
    assert closed == [(0, 60_000, "ROW", 3), (1, 60_000, "ROW", 1)]
    assert found.path[0] == "OUT Project" or found.path[0].endswith("Project")
    assert "CLICKS[1] Source" in found.path
    # The view tells the same of its own row.
    assert messages(ran.why("PER_MINUTE", k="a", total=21)) == messages(found)


class SlowClock(VirtualClock):
    """A second passes at each look."""

    def monotonic(self) -> float:
        self.sleep(1.0)
        return super().monotonic()


def test_an_explanation_ends_at_its_limit_of_time() -> None:
    ran = Ran(PER_MINUTE, [(0, 5, "a", 1), (0, 61, "a", 8)])
    slow = replace(ran.world.context(sources=ran.topics), clock=SlowClock())
    question = RowQuestion({1: "a"}, None)
    assert messages(why(slow, "OUT", question)) == messages(ran.why("OUT", k="a"))
    with pytest.raises(StatementError, match=r"not explained within 0.5 s") as caught:
        why(slow, "OUT", question, limit_s=0.5)
    assert "limits.why_s" in str(caught.value.hint)


ELEMENTS = """
CREATE FOREIGN TABLE out (k VARCHAR(8), v INTEGER, total BIGINT) SERVER d;
CREATE VIEW elements AS SELECT STREAM c.k, e.v
  FROM clicks AS c, JSON_TABLE (c.k, '$[*]' COLUMNS (v INTEGER PATH '$')) AS e;
CREATE VIEW per_value AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, v, COUNT(*) AS c
  FROM elements GROUP BY FLOOR(ROWTIME TO MINUTE), v;
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM CAST(c AS VARCHAR(8)), v, c FROM per_value;
"""


def test_an_element_of_json_is_told_by_its_message() -> None:
    ran = Ran(
        ELEMENTS,
        [(0, 5, "[1,2]", 1), (0, 6, "[]", 1), (1, 7, "[2,2]", 1), (0, 70, "[]", 1), (1, 70, "[]", 1)],
    )
    found = ran.why("ELEMENTS", v=1)
    assert messages(found) == [("CLICKS", 0, 0)]
    assert any("JsonTable" in each for each in found.path)
    assert messages(ran.why("PER_VALUE", v=2)) == [("CLICKS", 0, 0), ("CLICKS", 1, 0)]


PAIRS = """
CREATE FOREIGN TABLE out (k VARCHAR(8), clicked BIGINT, viewed BIGINT) SERVER d;
CREATE VIEW pairs AS SELECT STREAM c.k, c.n AS clicked, v.n AS viewed
  FROM clicks AS c LEFT JOIN views OVER (RANGE INTERVAL '10' SECOND FOLLOWING) AS v ON c.k = v.k;
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM k, clicked, viewed FROM pairs;
"""


def test_a_pair_is_told_by_both_of_its_messages_and_a_single_by_the_bound_that_let_it_go() -> None:
    ran = Ran(
        PAIRS,
        [(0, 10, "a", 1), (0, 11, "a", 1), (0, 20, "b", 2), (0, 90, "z", 0)],
        [(0, 5, "a", 6), (0, 15, "a", 7), (0, 60, "b", 8)],
    )
    pair = ran.why("OUT", clicked=1, viewed=7, rowtime=11_000)
    assert messages(pair) == [("CLICKS", 0, 1), ("VIEWS", 0, 1)]
    assert [each.rows for each in pair.made_of] == [1, 1]
    single = ran.why("OUT", k="b")
    assert single.row["VIEWED"] is None
    assert messages(single) == [("CLICKS", 0, 2)]
    # Views up to ten seconds later could still have matched.
    assert ("VIEWS", 30_001, "ROW", 2) in [
        (each.relation, each.needs, each.by, each.offset) for each in single.releases
    ]


FRAMES = """
CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT, s BIGINT) SERVER d;
CREATE VIEW sums AS SELECT STREAM k, n, SUM(n) OVER (PARTITION BY k {}) AS s FROM clicks;
CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM k, n, s FROM sums;
"""


@pytest.mark.parametrize(
    ("frame", "total", "offsets"),
    [
        ("ORDER BY ROWTIME RANGE INTERVAL '10' SECOND PRECEDING", 28, [1, 3, 4]),
        ("ORDER BY ROWTIME ROWS 1 PRECEDING", 24, [3, 4]),
        ("ORDER BY ROWTIME", 29, [0, 1, 3, 4]),
        ("ORDER BY ROWTIME ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", 56, [3, 4, 5]),
    ],
)
def test_a_row_with_a_frame_is_told_by_the_rows_of_its_frame(
    frame: str, total: int, offsets: list[int]
) -> None:
    seconds = [(1, "a", 1), (12, "a", 4), (13, "b", 5), (15, "a", 8), (20, "a", 16), (25, "a", 32)]
    seconds += [(26, "b", 0), (60, "z", 0)]
    ran = Ran(FRAMES.format(frame), [(0, *each) for each in seconds])
    found = ran.why("OUT", n=16)
    assert found.row["S"] == total
    assert [each.offset for each in found.inputs] == offsets


ENRICHED = """
CREATE TABLE latest (k VARCHAR(8), n INTEGER, PRIMARY KEY (k));
CREATE PUMP fill STARTED AS INSERT INTO latest SELECT STREAM k, n FROM views;
CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT, known BIGINT) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO out
  SELECT STREAM c.k, c.n, t.n AS known FROM clicks AS c JOIN latest AS t ON c.k = t.k;
"""


def test_an_enriched_row_is_told_by_the_message_that_had_filled_the_table() -> None:
    ran = Ran(
        ENRICHED,
        [(0, 10, "a", 1), (0, 20, "a", 2)],
        [(0, 5, "a", 6), (0, 15, "b", 7), (0, 19, "a", 9), (0, 60, "c", 8)],
    )
    found = ran.why("OUT", n=2)
    assert found.row["KNOWN"] == 9
    assert messages(found) == [("CLICKS", 0, 1), ("VIEWS", 0, 2)]
    assert ("VIEWS", 20_001, "ROW", 3) in [
        (each.relation, each.needs, each.by, each.offset) for each in found.releases
    ]


def test_a_row_over_two_windows_is_followed_through_both() -> None:
    ran = Ran(
        """
CREATE VIEW per_second AS SELECT STREAM FLOOR(ROWTIME TO SECOND) AS s, COUNT(*) AS n
  FROM clicks GROUP BY FLOOR(ROWTIME TO SECOND);
CREATE FOREIGN TABLE out (m TIMESTAMP, most BIGINT, PRIMARY KEY (m)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO out
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS m, MAX(n) AS most FROM per_second
  GROUP BY FLOOR(ROWTIME TO MINUTE);
""",
        [(0, second, "a", 1) for second in (1, 1, 1, 2, 2, 30, 61, 200, 300)],
    )
    found = ran.why("OUT", m=0)
    assert found.row["MOST"] == 3
    assert [each.offset for each in found.inputs] == [0, 1, 2, 3, 4, 5]
    assert sorted(each.rows for each in found.made_of) == [1, 2, 3, 3]


def test_what_cannot_be_told_is_refused_plainly() -> None:
    ran = Ran(PER_MINUTE, [(0, 5, "a", 1), (0, 65, "a", 8)])
    with pytest.raises(StatementError, match='relation "NOWHERE" does not exist'):
        why(ran.world.context(sources=ran.topics), "NOWHERE", RowQuestion({}))
    with pytest.raises(StatementError, match="no such row was written"):
        ran.why("OUT", k="b")
    # The second minute is open: its row has not come out.
    with pytest.raises(StatementError, match="no such row was written"):
        ran.why("OUT", total=80)
    ran.topics["CLICKS"].truncate(0, 1)
    with pytest.raises(StatementError, match="the log no longer holds earlier messages"):
        ran.why("OUT", k="a")


def test_a_decision_that_let_a_row_go_is_named() -> None:
    plan = plan_pipeline(HEAD.format(", idle_timeout '1 SECOND'") + PER_MINUTE)
    topic = InMemoryTopic("clicks", 2)
    topic.add(0, 5_000, b'{"k":"a","n":1}')
    topic.add(1, 6_000, b'{"k":"a","n":1}')
    topic.add(1, 70_000, b'{"k":"a","n":1}')
    world = World(topic, plan=plan)
    end = 30.0
    world.clock.seconds = 0.0
    sources = {"CLICKS": topic}
    stopping = lambda: world.clock.seconds > end  # noqa: E731
    Service(world.context(sources=sources, stopping=stopping, pace=Pace(100, 100, None, None))).run()
    found = why(world.context(sources=sources), "OUT", RowQuestion({0: 0}))
    released = {each.partition: (each.needs, each.by, each.offset) for each in found.releases}
    assert released == {0: (60_000, "IDLE", 1), 1: (60_000, "ROW", 1)}
    assert [(each["kind"], each["partition"], each["bound"]) for each in found.decisions] == [
        ("IDLE", 0, 70_000)
    ]


ALL_ROWS = [
    (0, 1, "a", 1),
    (0, 2, "b", 2),
    (0, 8, "a", 4),
    (0, 12, "a", 8),
    (0, 13, "b", 16),
    (0, 95, "z", 0),
]


@pytest.mark.parametrize(
    ("columns", "query", "row", "offsets"),
    [
        pytest.param(
            "at TIMESTAMP, s BIGINT",
            "SELECT STREAM HOP_START(ROWTIME, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS at, SUM(n) AS s"
            " FROM clicks GROUP BY HOP(ROWTIME, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
            {"at": 5_000},
            [2, 3, 4],
            id="hop",
        ),
        pytest.param(
            "k VARCHAR(8), s BIGINT",
            "SELECT STREAM k, SUM(n) AS s FROM clicks GROUP BY SESSION(ROWTIME, INTERVAL '6' SECOND), k",
            {"k": "a", "s": 12},
            [2, 3],
            id="session",
        ),
        pytest.param(
            "at TIMESTAMP, k VARCHAR(8)",
            "SELECT STREAM DISTINCT FLOOR(ROWTIME TO MINUTE) AS at, k FROM clicks",
            {"k": "b"},
            [1, 4],
            id="distinct",
        ),
        pytest.param(
            "k VARCHAR(8), n BIGINT",
            "SELECT STREAM k, n FROM clicks ORDER BY FLOOR(ROWTIME TO MINUTE), n DESC",
            {"n": 8},
            [3],
            id="order in a period",
        ),
        pytest.param(
            "k VARCHAR(8), n BIGINT",
            "SELECT STREAM k, n FROM clicks UNION ALL SELECT STREAM k, n FROM clicks WHERE n > 5",
            {"n": 8},
            [3],
            id="a diamond",
        ),
        pytest.param(
            "k VARCHAR(8), n BIGINT",
            "SELECT STREAM k, LAG(n) OVER (PARTITION BY k ORDER BY ROWTIME) AS n FROM clicks",
            {"k": "a", "n": 4},
            [2, 3],
            id="lag",
        ),
    ],
)
def test_every_kind_of_row_is_told_by_its_messages(
    columns: str, query: str, row: dict[str, Any], offsets: list[int]
) -> None:
    ran = Ran(
        f"CREATE FOREIGN TABLE out ({columns}) SERVER d;"
        f"CREATE VIEW asked AS {query};"
        "CREATE PUMP p STARTED AS INSERT INTO out SELECT STREAM * FROM asked;",
        ALL_ROWS,
    )
    for relation in ("OUT", "ASKED"):
        assert [each.offset for each in ran.why(relation, **row).inputs] == offsets


@pytest.mark.parametrize(
    ("statements", "row", "offsets"),
    [
        pytest.param(
            "CREATE FOREIGN TABLE out (k VARCHAR(8), s BIGINT, PRIMARY KEY (k)) SERVER d;"
            "CREATE VIEW sums OPTIONS (RETENTION 'UNBOUNDED') AS"
            " SELECT STREAM k, SUM(n) AS s FROM clicks GROUP BY k EMIT CHANGES;"
            "CREATE PUMP p STARTED AS INSERT INTO out SELECT k, s FROM sums;",
            {"k": "a", "s": 5},
            [0, 2],
            id="a group that changes",
        ),
        pytest.param(
            "CREATE TABLE latest (k VARCHAR(8), n INTEGER, PRIMARY KEY (k));"
            "CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT, PRIMARY KEY (k)) SERVER d;"
            "CREATE PUMP fill STARTED AS INSERT INTO latest SELECT STREAM k, n FROM clicks;"
            "CREATE PUMP p STARTED AS INSERT INTO out SELECT k, n FROM latest;",
            {"k": "b"},
            [4],
            id="a table",
        ),
        pytest.param(
            "CREATE TABLE one (k VARCHAR(8), n INTEGER, PRIMARY KEY (k));"
            "CREATE TABLE other (k VARCHAR(8), n INTEGER, PRIMARY KEY (k));"
            "CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT, m BIGINT, PRIMARY KEY (k)) SERVER d;"
            "CREATE PUMP fill1 STARTED AS INSERT INTO one SELECT STREAM k, n FROM clicks;"
            "CREATE PUMP fill2 STARTED AS INSERT INTO other SELECT STREAM k, n FROM clicks WHERE n < 3;"
            "CREATE PUMP p STARTED AS INSERT INTO out SELECT a.k, a.n, b.n AS m FROM one AS a JOIN other AS b"
            " ON a.k = b.k;",
            {"k": "a", "n": 8},
            [0, 3],
            id="two tables",
        ),
        pytest.param(
            "CREATE TABLE latest (k VARCHAR(8), n INTEGER, PRIMARY KEY (k));"
            "CREATE FOREIGN TABLE out (k VARCHAR(8), n BIGINT, PRIMARY KEY (k)) SERVER d;"
            "CREATE PUMP fill STARTED AS INSERT INTO latest SELECT STREAM k, n FROM clicks;"
            "CREATE PUMP p STARTED AS INSERT INTO out SELECT k, n FROM latest ORDER BY n DESC LIMIT 1;",
            {"k": "a", "n": 4},
            # The message that let it in, and the one whose row it took the place of.
            [0, 2],
            id="the first of a table",
        ),
    ],
)
def test_changes_are_told_by_the_messages_that_made_them(
    statements: str, row: dict[str, Any], offsets: list[int]
) -> None:
    found = Ran(statements, ALL_ROWS).why("OUT", **row)
    assert [each.offset for each in found.inputs] == offsets
