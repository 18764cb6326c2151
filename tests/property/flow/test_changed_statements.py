"""Changed statements of a pipeline file, and statements that are sent: queries follow as if they had always been there.

Each change of the file is compared with a new start of the changed file. The tables are filled by statements alone, by
statements and a pump, by a pump that reads a table, and by a topic; the queries combine them in every way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.flow.table_changes import LastStatement, changes_of
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import SqlSession

TABLES = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE FOREIGN STREAM s (id INTEGER, n INTEGER) SERVER k OPTIONS (topic 's', format 'JSON');
CREATE FOREIGN STREAM r (id INTEGER, n INTEGER) SERVER k OPTIONS (topic 'r', format 'JSON');
CREATE TABLE keyed (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER CHECK (n < 50));
CREATE TABLE bag (id INTEGER, n INTEGER);
CREATE TABLE single (id INTEGER PRIMARY KEY, n INTEGER, UNIQUE (n));
CREATE TABLE fed (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE heap (id INTEGER, n INTEGER);
CREATE TABLE derived (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE topical (id INTEGER PRIMARY KEY, n INTEGER) SERVER k OPTIONS (topic 'topical', format 'JSON');
"""
PUMPS = """
CREATE PUMP p1 AS INSERT INTO fed SELECT STREAM id, n FROM s;
CREATE PUMP p2 AS INSERT INTO heap SELECT STREAM id, n FROM s;
CREATE PUMP p3 AS INSERT INTO derived SELECT id, SUM(n) AS n FROM bag GROUP BY id;
"""
STATED = ("keyed", "other", "bag", "single", "fed", "heap", "derived")
ALONE = STATED[:4]
"""Those that only statements fill."""
READ = (*STATED, "topical")
QUERIES = (
    "SELECT id, n FROM {a}",
    "SELECT n, SUM(id) AS t FROM {a} GROUP BY n EMIT CHANGES",
    "SELECT x.id, x.n, y.n AS m FROM {a} AS x JOIN {b} AS y ON x.id = y.id",
    "SELECT x.id, x.n, y.n AS m FROM {a} AS x LEFT JOIN {b} AS y ON x.id = y.id AND x.n < y.n",
    "SELECT x.id, y.id AS j FROM {a} AS x FULL JOIN {b} AS y ON x.id = y.id",
    "SELECT x.n, y.n AS m FROM {a} AS x CROSS JOIN {b} AS y",
    "SELECT x.n, y.n AS m FROM {a} AS x JOIN {a} AS y ON x.id = y.n",
    "SELECT id, n FROM {a} UNION SELECT n, id FROM {b}",
    "SELECT id FROM {a} UNION ALL SELECT n FROM {a}",
    "SELECT id, n FROM {a} EXCEPT SELECT id, n FROM {b}",
    "SELECT id, n FROM {a} INTERSECT SELECT id, n FROM {b}",
    "SELECT id, n FROM {a} WHERE id IN (SELECT id FROM {b})",
    "SELECT id FROM {a} AS x WHERE NOT EXISTS (SELECT 1 FROM {b} AS y WHERE y.id = x.id)",
    "SELECT id, (SELECT MAX(n) FROM {b}) AS m FROM {a}",
    "SELECT id, n FROM {a} WHERE n > (SELECT MIN(n) FROM {b})",
    "SELECT DISTINCT x.n FROM (SELECT n FROM {a} UNION ALL SELECT id FROM {b}) AS x",
    "SELECT x.id, COUNT(*) AS c FROM {a} AS x JOIN {b} AS y ON x.id = y.id GROUP BY x.id EMIT CHANGES",
    "SELECT n, COUNT(*) AS c FROM {a} GROUP BY n EMIT CHANGES EVERY INTERVAL '1' MINUTE",
    "SELECT id, n FROM {a} ORDER BY n DESC, id LIMIT 2",
)
PARTITIONS = {"S": (0,), "R": (0,), "TOPICAL": (0,)}
OWN_KEYS, OF_STREAMS = range(4), range(10, 13)
"""Keys that statements write, and those that streams do."""
NUMBERS = st.integers(0, 4)


@cache
def session_of(statements: str, queries: tuple[str, ...]) -> SqlSession:
    session = SqlSession()
    views = "".join(f"CREATE VIEW v{at} AS {each};\n" for at, each in enumerate(queries))
    session.feed(f"{TABLES}{statements}{PUMPS}{views}")
    return session


def outputs_of(session: SqlSession) -> dict[str, Node]:
    nodes = dict(session.plan.relations)
    return {name: node for name, node in nodes.items() if name.startswith("V")}


def keys() -> st.SearchStrategy[int]:
    return st.sampled_from(list(OWN_KEYS))


@st.composite
def statement(draw: st.DrawFn, table: str) -> str:
    """Return a statement; without UNIQUE or CHECK none of them can fail."""
    key, number = draw(keys()), draw(NUMBERS)
    if table == "single":
        number = key
    rows = ", ".join(
        f"({each}, {each if table == 'single' else draw(NUMBERS)})"
        for each in draw(st.lists(keys(), min_size=1, max_size=3))
    )
    update = f"UPDATE {table} SET n = {'n + 10' if table == 'single' else f'n + {number}'} WHERE n <> {key}"
    return draw(
        st.sampled_from(
            (
                f"INSERT INTO {table} VALUES {rows};",
                f"INSERT INTO {table} VALUES {rows};",
                f"{update};",
                f"DELETE FROM {table} WHERE id = {key};",
                f"DELETE FROM {table};",
                f"TRUNCATE TABLE {table};",
                f"MERGE INTO {table} USING (VALUES ({key}, {number})) AS z (id, n) ON {table}.id = z.id "
                "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (z.id, z.n);",
            )
        )
    )


def statements() -> st.SearchStrategy[str]:
    """Return the statements of a file, in any order; it begins with rows more often than not."""
    return st.lists(st.sampled_from(STATED).flatmap(statement), max_size=9).map("\n".join)


def query() -> st.SearchStrategy[str]:
    table = st.sampled_from(READ)
    return st.builds(lambda text, a, b: text.format(a=a, b=b), st.sampled_from(QUERIES), table, table)


def queries() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(query(), min_size=1, max_size=3).map(tuple)


@dataclass
class Running:
    """A pipeline that runs, and the contents of its views."""

    session: SqlSession
    rows: dict[str, Counter[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flow = Flow(outputs_of(self.session), PARTITIONS)
        self.drain()

    def drain(self) -> None:
        emitted = self.flow.drain()
        assert not [f"{each.relation}: {each.message} {each.row}" for each in emitted.faults]
        for name, trays in emitted.outputs.items():
            held = self.rows.setdefault(name, Counter())
            for tray in trays:
                for timed in tray.rows():
                    held[timed.row] += int(timed.opcode)
                    assert held[timed.row] >= 0, (name, timed)
        self.flow.check()

    def contents(self) -> dict[str, Counter[Row]]:
        return {name: +held for name, held in self.rows.items()}

    def apply(self, changed: SqlSession) -> None:
        """Continue as the changed file, as `rowtide apply` and a step `sql:` do."""
        flow = Flow(outputs_of(changed), PARTITIONS)
        flow.succeed(self.flow)
        self.session, self.flow = changed, flow
        self.drain()

    def crash(self) -> None:
        flow = Flow(outputs_of(self.session), PARTITIONS)
        flow.restore(self.flow.snapshot())
        self.flow = flow

    def send(self, text: str) -> None:
        sent = self.session.sent(text)
        done = sent.execute(lambda table: [timed.row for timed in self.flow.table(table).rows()])
        last = LastStatement(self.flow.last_statement.number + 1, self.flow.earliest_change(sent.targets))
        self.flow.change_tables(
            last,
            {
                name: changes_of(change.row_type, change.deleted, change.inserted)
                for name, change in done.changes.items()
            },
        )
        self.drain()

    def insert(self, stream: str, rowtime: int, offset: int, row: Row) -> None:
        timed = TimedRow(rowtime, self.flow.origin(stream, 0), offset, Opcode.INSERT, row)
        self.flow.insert(stream, 0, Tray.from_rows(self.flow.source_type(stream), [timed]))
        self.drain()

    def end(self, rowtime: int) -> None:
        for stream in PARTITIONS:
            if self.flow.reads(stream):
                self.flow.bound(stream, 0, Bound(rowtime))
        self.drain()


@given(queries(), st.lists(st.tuples(statements(), st.booleans()), min_size=2, max_size=4))
def test_a_changed_file_gives_what_a_new_start_gives(
    read: tuple[str, ...], files: Sequence[tuple[str, bool]]
) -> None:
    running = Running(session_of(files[0][0], read))
    for changed, crashes in files[1:]:
        running.apply(session_of(changed, read))
        assert running.contents() == Running(session_of(changed, read)).contents()
        if crashes:
            running.crash()


@given(
    queries(),
    statements(),
    statements(),
    st.lists(st.sampled_from(ALONE).flatmap(statement), min_size=1, max_size=4),
)
def test_sent_statements_give_what_a_new_start_with_them_gives(
    read: tuple[str, ...], before: str, after: str, sent: Sequence[str]
) -> None:
    """EVERY and unread tables are refused: docs/sql/tables.md#statements-sent-to-a-running-service."""
    read = (
        *(each for each in read if "EVERY" not in each),
        *(f"SELECT id, n FROM {table}" for table in ALONE),
    )
    running = Running(session_of(before, read))
    running.apply(session_of(after, read))
    for at, each in enumerate(sent, 1):
        running.send(each)
        assert running.contents() == Running(session_of("\n".join((after, *sent[:at])), read)).contents()


@given(
    queries(),
    st.lists(statements(), min_size=2, max_size=4),
    st.lists(
        st.tuples(st.sampled_from(sorted(PARTITIONS)), st.sampled_from(list(OF_STREAMS)), NUMBERS), max_size=9
    ),
)
def test_rows_of_streams_stay_when_the_file_changes(
    read: tuple[str, ...], files: Sequence[str], rows: Sequence[tuple[str, int, int]]
) -> None:
    read = (
        *read,
        "SELECT STREAM r.id, x.m FROM r LEFT JOIN (SELECT a.id, b.n AS m FROM keyed AS a "
        "JOIN single AS b ON a.id = b.id) AS x ON r.n = x.id",
    )
    running, fresh = (Running(session_of(text, read)) for text in (files[0], files[-1]))
    part = len(rows) // (len(files) - 1) + 1
    for at, changed in enumerate(files[1:]):
        for number, (stream, key, value) in enumerate(rows[at * part : (at + 1) * part], at * part):
            for each in (running, fresh):
                if each.flow.reads(stream):
                    each.insert(stream, 1_000 + 10 * number, number, (key, value))
        running.apply(session_of(changed, read))
        running.crash()
    for each in (running, fresh):
        each.end(200_000)
    # The stream's rows saw the tables as they were, and are never corrected.
    joined = f"V{len(read) - 1}"
    assert {**running.contents(), joined: None} == {**fresh.contents(), joined: None}
