"""Random queries over tables give what DuckDB gives at any time; neither cuts nor paths are seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import cast

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.sql.drawn_tables import COLUMNS, KEYS, TABLES, TYPES, Queries
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.operators import registry
from rowtide.plan.nodes import Form, Node
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession
from support.duck import fill

REFUSED = ("a constant is not a sort key", "a constant is not a grouping key")
Changes = list[tuple[int, int, tuple[str, ...]]]


@dataclass(frozen=True)
class Change:
    """A row comes into a table or goes out of it; a row replaces that of its key."""

    rowtime: int
    table: str
    opcode: Opcode
    row: Row


def changes(random: Random) -> list[Change]:
    found, now = [], 0
    for _ in range(random.randint(4, 20)):
        now += random.choice([0, 1, 1, 2])
        table = random.choice("ABC")
        row = (
            random.randint(0, 4),
            random.choice(["x", "y", "xy", "x" if table == "C" else None]),
            random.choice([0, 1, 1, 2, 3, 0 if table == "C" else None]),
            random.choice([Decimal("0.25"), Decimal("1.50"), Decimal("-2.00"), None]),
            random.choice([True, False, None]),
        )
        opcode = random.choice([Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE])
        found.append(Change(now, table, opcode, row))
    return found


def as_text(row: Row) -> tuple[str, ...]:
    """Return a row so that numbers are equal whatever their type."""
    return tuple(
        str(value) if value is None or isinstance(value, str | bool) else f"{float(cast('float', value)):.6f}"
        for value in row
    )


def changes_of(flow: Flow) -> Changes:
    emitted = flow.drain()
    assert emitted.faults == []
    rows = [timed for tray in emitted.outputs["Q"] for timed in tray.rows()]
    return [(each.rowtime, int(each.opcode), as_text(each.row)) for each in rows]


def put(flow: Flow, counter: int, change: Change) -> None:
    if flow.reads(change.table):
        origin = flow.origin(change.table, 0)
        timed = TimedRow(change.rowtime, origin, counter, change.opcode, change.row)
        flow.insert(change.table, 0, Tray.from_rows(flow.row_type(change.table), [timed]))


def promise(flow: Flow, rowtime: int) -> None:
    for table in KEYS:
        if flow.reads(table):
            flow.bound(table, 0, Bound(rowtime))


def with_cuts(start: Callable[[], Flow], fed: list[Change], random: Random) -> Changes:
    """Return all that is reported, drained anywhere, and restarted from a snapshot now and then."""
    flow, reported = start(), []
    for counter, change in enumerate(fed):
        put(flow, counter, change)
        if random.random() < 0.3:
            reported += changes_of(flow)
            if random.random() < 0.5:
                state = flow.snapshot()
                flow = start()
                flow.restore(state)
    promise(flow, LATEST)
    return reported + changes_of(flow)


def beside_duckdb(flow: Flow, query: str, fed: list[Change], database: duckdb.DuckDBPyConnection) -> Changes:
    """Return all that is reported; whenever time goes on, what is there is what DuckDB gives for the tables."""
    held: Counter[tuple[str, ...]] = Counter()
    contents: dict[str, dict[Row, Row]] = {table: {} for table in KEYS}
    reported: Changes = []
    for counter, change in enumerate(fed):
        put(flow, counter, change)
        key = tuple(change.row[at] for at in KEYS[change.table])
        contents[change.table].pop(key, None)
        if change.opcode is Opcode.INSERT:
            contents[change.table][key] = change.row
        after = fed[counter + 1].rowtime if counter + 1 < len(fed) else LATEST
        if after == LATEST or (after != change.rowtime and counter % 3 == 0):
            promise(flow, after)
            new = changes_of(flow)
            reported += new
            for _, opcode, row in new:
                held[row] += opcode
                assert held[row] >= 0, "what is deleted was there"
            assert +held == answer(database, query, contents)
    return reported


def answer(
    database: duckdb.DuckDBPyConnection, query: str, contents: dict[str, dict[Row, Row]]
) -> Counter[tuple[str, ...]]:
    for table, rows in contents.items():
        fill(database, table, ", ".join(f"{name} {TYPES[of]}" for name, of in COLUMNS), rows.values())
    return Counter(map(as_text, database.execute(query).fetchall()))


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        yield connection


def duckdb_gives_the_same(seed: int, database: duckdb.DuckDBPyConnection) -> None:
    random = Random(seed)
    query, _ = Queries(random).query(random.randint(0, 3))
    session = SqlSession(inserted=KEYS)
    session.feed(TABLES)
    try:
        node = session.query(query)
    except StatementError as refused:
        assert refused.message in REFUSED
        return
    fed = changes(random)
    reported = beside_duckdb(Flow({"Q": node}, {}), query, fed, database)
    assert with_cuts(lambda: Flow({"Q": node}, {}), fed, random) == reported
    assert with_cuts(lambda: row_by_row(node), fed, random) == reported


def row_by_row(node: Node) -> Flow:
    """Return a flow in which whatever has a plain form takes it."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in registry.BY_ROW:
            patch.setattr(kind, "form", lambda _node: Form.BY_ROW)
        return Flow({"Q": node}, {})


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_a_drawn_query_gives_what_duckdb_gives(seed: int, database: duckdb.DuckDBPyConnection) -> None:
    duckdb_gives_the_same(seed, database)


@pytest.mark.long
@settings(settings.get_profile("long"), max_examples=3000)
@given(seed=st.integers(0, 2**32))
def test_a_drawn_query_gives_what_duckdb_gives_for_long(
    seed: int, database: duckdb.DuckDBPyConnection
) -> None:
    duckdb_gives_the_same(seed, database)
