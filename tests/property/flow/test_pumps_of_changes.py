"""Changelogs that come together: a table takes each one's changes in its own order, however they are cut.

The same streams reach the table, or the join, in several orders: at one rowtime
no order of origins is then that of all inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.inputs import through_bytes
from property.flow.links import Links
from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node
from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession

STREAMS = ("A", "B", "C")
PARTITIONS = {"A": (0, 1), "B": (0,), "C": (0,)}
PRELUDE = """
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE STREAM a (k INTEGER, n INTEGER);
CREATE STREAM b (k INTEGER, n INTEGER);
CREATE STREAM c (k INTEGER, n INTEGER);
CREATE FOREIGN TABLE o (p INTEGER, k INTEGER, n BIGINT, PRIMARY KEY (p, k)) SERVER d;
CREATE FOREIGN TABLE j (k INTEGER, x BIGINT, y BIGINT, PRIMARY KEY (k)) SERVER d;
CREATE TABLE t (p INTEGER, k INTEGER, n BIGINT, PRIMARY KEY (p, k));
"""
ORDERS = st.lists(st.lists(st.sampled_from(STREAMS), min_size=1, unique=True), min_size=2, max_size=3)
Way = tuple[str, int, int, int, int]
"""One row that comes in: stream, partition, rowtime, K, N."""
WAYS = st.lists(
    st.sampled_from([(name, each) for name, numbers in PARTITIONS.items() for each in numbers]).flatmap(
        lambda place: st.tuples(
            st.just(place[0]), st.just(place[1]), st.integers(0, 2), st.integers(1, 2), st.integers(1, 5)
        )
    ),
    max_size=14,
)


def view(number: int, order: Sequence[str]) -> str:
    """Return the running sums by key of some streams, merged in some order."""
    union = " UNION ALL ".join(f"SELECT STREAM k, n FROM {name}" for name in order)
    return (
        f"CREATE VIEW v{number} OPTIONS (RETENTION 'UNBOUNDED') AS SELECT STREAM k, SUM(n) AS n "
        f"FROM ({union}) AS u GROUP BY k EMIT CHANGES;\n"
    )


def sums(rows: Sequence[Way], order: Sequence[str]) -> Counter[int]:
    """Return what a view comes to."""
    found: Counter[int] = Counter()
    for stream, _, _, key, number in rows:
        if stream in order:
            found[key] += number
    return found


def given_by(nodes: dict[str, Node], rows: Sequence[Way], data: st.DataObject) -> dict[str, list[TimedRow]]:
    """Let rows in, each partition's in order of time, drained and restarted anywhere."""
    flow, links = Flow(nodes, PARTITIONS), Links()
    links.watch(flow)
    out: dict[str, list[TimedRow]] = {name: [] for name in nodes}
    counters: Counter[tuple[str, int]] = Counter()

    def drain() -> None:
        for name, trays in flow.drain().outputs.items():
            out[name] += [row for tray in trays for row in tray.rows()]

    for stream, partition, rowtime, *row in mixed(rows, data):
        if not flow.reads(stream):
            continue
        place = (stream, partition)
        timed = TimedRow(rowtime, flow.origin(*place), counters[place], Opcode.INSERT, tuple(row))
        counters[place] += 1
        flow.insert(*place, Tray.from_rows(flow.row_type(stream), [timed]))
        how = data.draw(st.integers(0, 5))
        if how < 2:
            drain()
        if how == 0:
            state = {key: through_bytes(each) for key, each in flow.snapshot().items()}
            flow = Flow(nodes, PARTITIONS)
            flow.restore(state)
            links.watch(flow)
    for stream, numbers in PARTITIONS.items():
        for partition in numbers if flow.reads(stream) else ():
            flow.bound(stream, partition, Bound(LATEST))
    drain()
    return out


def mixed(rows: Sequence[Way], data: st.DataObject) -> Iterator[Way]:
    """Mix the partitions in any way."""
    queues: dict[tuple[str, int], list[Way]] = {}
    for row in sorted(rows, key=lambda each: each[2]):
        queues.setdefault(row[:2], []).append(row)
    while queues:
        place = data.draw(st.sampled_from(sorted(queues)))
        yield queues[place].pop(0)
        if not queues[place]:
            del queues[place]


def applied(rows: Sequence[TimedRow], key: int) -> dict[Row, Row]:
    """Return the table that changes leave; a DELETE must be of the row that is there, an INSERT of none."""
    found: dict[Row, Row] = {}
    for each in rows:
        place = each.row[:key]
        if each.opcode == Opcode.DELETE:
            assert found.pop(place, None) == each.row
        else:
            assert place not in found
            found[place] = each.row
    return found


def places(rows: Sequence[TimedRow]) -> list[object]:
    return [(row.rowtime, row.opcode, row.row) for row in rows]


@pytest.mark.parametrize("table", ["o", "t"])
@settings(max_examples=20)
@given(orders=ORDERS, rows=WAYS, data=st.data())
def test_pumps_of_changes_into_one_table_keep_the_order_of_each(
    table: str, orders: list[list[str]], rows: list[Way], data: st.DataObject
) -> None:
    session = SqlSession()
    sql = PRELUDE
    for number, order in enumerate(orders):
        sql += view(number, order)
        sql += f"CREATE PUMP p{number} AS INSERT INTO {table} SELECT STREAM {number}, k, n FROM v{number};\n"
    plan = session.feed(sql)
    nodes = table_nodes(plan) if table == "o" else {"T": dict(plan.relations)["T"]}
    (one,), (other,) = (given_by(nodes, rows, data).values() for _ in range(2))
    assert places(one) == places(other)
    assert applied(one, 2) == {
        (number, key): (number, key, total)
        for number, order in enumerate(orders)
        for key, total in sums(rows, order).items()
    }


@settings(max_examples=20)
@given(orders=st.lists(st.permutations(STREAMS), min_size=2, max_size=2), rows=WAYS, data=st.data())
def test_tables_that_read_streams_in_several_orders_are_joined(
    orders: list[list[str]], rows: list[Way], data: st.DataObject
) -> None:
    left, right = (order[:2] for order in orders)
    join = "SELECT STREAM l.k, l.n AS x, r.n AS y FROM v0 AS l JOIN v1 AS r ON l.k = r.k"
    plan = SqlSession().feed(
        PRELUDE + view(0, left) + view(1, right) + f"CREATE PUMP p AS INSERT INTO j (k, x, y) {join};"
    )
    (one,), (other,) = (given_by(table_nodes(plan), rows, data).values() for _ in range(2))
    assert places(one) == places(other)
    x, y = sums(rows, left), sums(rows, right)
    assert applied(one, 1) == {(key,): (key, x[key], y[key]) for key in x.keys() & y.keys()}
