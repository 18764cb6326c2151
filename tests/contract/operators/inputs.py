"""What operators are fed with: types, rows, bounds, and ways of cutting them into steps.

Values come from small pools that hold the ends of each type, zeros of both
signs and NULL, so that keys meet and sums overflow. Rowtimes come from a few
neighbours, so that there are ties. Trays are slices of longer ones and hold
rubbish where a value is NULL, as real ones may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from contract.operators.model import later
from rowtide.expr.functions.arguments import packed
from rowtide.expr.functions.pairs import NUMBER_PAIR, as_pair, numbers
from rowtide.expr.tree import Expr, FieldRef, RowtimeRef
from rowtide.operators.contract import OperatorSite, State
from rowtide.plan.nodes import Node, Project
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    JSON,
    TIMESTAMP,
    UUID,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    array_of,
    decimal,
)
from rowtide.rowtime.bound import EARLIEST, NO_BOUND, UNMARKED, Bound

TINYINT, REAL, VARBINARY = Type(Kind.TINYINT), Type(Kind.REAL), Type(Kind.VARBINARY)
ARRAY = array_of(INTEGER)
NARROW, WIDE, WIDEST = decimal(18, 3), decimal(38, 2), decimal(38, 0)
INTEGERS, TEXTS = Type(Kind.VARBINARY, 21), Type(Kind.VARBINARY, 22)
"""The arguments of an aggregate in Python: an integer, a text."""
ORDERED, ORDERED_JSON = Type(Kind.VARBINARY, 23), Type(Kind.VARBINARY, 24)
"""Pairs of $ORDERED: of texts, of JSON."""

POOLS: dict[Type, tuple[Any, ...]] = {
    BOOLEAN: (False, True),
    TINYINT: (-128, -1, 0, 1, 127),
    BIGINT: (0, 1, -1, 7, 2**63 - 1, -(2**63), 2**62),
    REAL: (0.0, -0.0, 1.5, -2.25, float(np.finfo(np.float32).max)),
    DOUBLE: (0.0, -0.0, 0.1, -0.2, 1.7e308, -1.7e308, 5e-324),
    NARROW: tuple(map(Decimal, ("0.000", "0.001", "-0.005", "1.250", "999999999999999.999"))),
    WIDE: tuple(map(Decimal, ("0.00", "-0.01", "1.25", "9" * 36 + ".99", "-" + "9" * 36 + ".99"))),
    WIDEST: tuple(map(Decimal, ("0", "-1", "3", "9" * 31, "9" * 32, "9" * 38))),
    VARCHAR: ("", "a", "ab", "\0", "ä", "日本", "a" * 40),
    VARBINARY: (b"", b"\0", b"a", b"\xff\xfe"),
    NUMBER_PAIR: tuple(numbers(y, x) for y, x in ((0.0, 1.0), (2.5, -1.0), (1e300, 1e-300), (2.5, 3.0))),
    INTEGERS: tuple(packed((INTEGER,), (n,)) for n in (0, 1, -5, 40)),
    TEXTS: tuple(packed((VARCHAR,), (text,)) for text in ("", "a", "b", "äö")),
    ORDERED: tuple(
        as_pair(*each) for each in ((b"", b"x"), (b"b", b"a"), (b"b", b""), (b"a\0", "ä".encode()))
    ),
    ORDERED_JSON: tuple(
        as_pair(*each) for each in ((b"b", b"[1]"), (b"a", b"[]"), (b"", b"[null]"), (b"a", b'["b"]'))
    ),
    UUID: ("00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ARRAY: ((), (None,), (0, None), (1, -1), (7,) * 9),
    JSON: ("[]", "[1]", "[null]", '["a",{}]'),
    DATE: (0, -1, 19_000, 2**31 - 1),
    INTERVAL_DAY: (0, 1, -1, 60_000, 2**63 - 1, -(2**63), 2**62),
    INTERVAL_MONTH: (0, 1, -5, 12, 2**63 - 1, -(2**62)),
    INSTANT: (0, -1, 5, 1_700_000_000_000),
    TIMESTAMP: (0, -1, 5, 1_700_000_000_000),
}
"""What values of each type are drawn from."""

EASY = {
    DOUBLE: (0.0, -0.0, 0.1, -0.2, 1e15, -1e15, 3.5, 2.0**-60, 2.0**100),
    REAL: (0.0, -0.0, 1.5, -2.25),
    BIGINT: (0, 1, -1, 7, 2**40, -(2**40), 2**62),
    INTERVAL_DAY: (0, 1, -1, 60_000, 2**40, -(2**40), 2**62),
    INTERVAL_MONTH: (0, 1, -5, 12, 2**40),
    NARROW: tuple(map(Decimal, ("0.001", "-0.005", "1.250", "999999999999999.999"))),
}
"""Values of which sums fit, mostly."""


@contextmanager
def easy_values() -> Iterator[None]:
    """Draw values of which sums fit."""
    before = dict(POOLS)
    POOLS.update(EASY)
    try:
        yield
    finally:
        POOLS.update(before)


KEY_TYPES = (VARCHAR, BIGINT, DOUBLE, BOOLEAN, DATE, NARROW, WIDE, VARBINARY, UUID, ARRAY, INSTANT)
"""What keys and partitions are of. An array has no order, so nothing is sorted by it: ``in_order``."""
OF_COLLECTIONS: dict[str, tuple[Type, ...]] = {
    "ARRAY_AGG": (ARRAY,),
    "JSON_ARRAYAGG": (JSON,),
    "ORDERED_LISTAGG": (ORDERED,),
    "ORDERED_JSON": (ORDERED_JSON,),
    "JSON_OBJECTAGG": (JSON,),
    "LAST_VALUE": (ARRAY, VARCHAR, BIGINT, NARROW),
    "ANY_VALUE": (ARRAY, VARCHAR, DOUBLE, WIDE),
    "MODE": (ARRAY, VARCHAR, BIGINT),
}
"""The arguments of aggregates that make arrays and JSON, and of those that take arrays."""
RUBBISH: dict[str, Any] = {"f": np.nan, "i": 77, "b": True, "O": None}
"""What stands under a NULL, by kind of NumPy type."""


@dataclass(frozen=True, slots=True)
class Case:
    """One operator to run: its node and place, and for each port its rows and bounds in order.

    ``ordered``: what comes out is in order, so that its bounds are promises.
    """

    node: Node
    place: OperatorSite
    ports: tuple[tuple[TimedRow | Bound, ...], ...]
    ordered: bool = True

    @property
    def row_types(self) -> list[RowType]:
        """The row type of each port."""
        types = [each.row_type for each in self.node.inputs]
        return [types[port] if len(types) > 1 else types[0] for port in range(len(self.ports))]


@dataclass(frozen=True, slots=True)
class Step:
    """What one call of an operator brings: rows, and the bound that follows them."""

    port: int
    rows: tuple[TimedRow, ...]
    bound: Bound


def row_type_of(types: Sequence[Type], prefix: str = "C") -> RowType:
    """Return a row type of fields of these types."""
    return RowType(tuple(Field(f"{prefix}{index}", kind) for index, kind in enumerate(types)))


def in_order(fields: Sequence[Type], indices: Sequence[int]) -> list[int]:
    """Return those indices whose fields have an order."""
    return [index for index in indices if fields[index] != ARRAY]


def values(kind: Type, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """Return values of a type."""
    found = st.sampled_from(POOLS[kind])
    return found | st.none() if nulls else found


def rows_of(row_type: RowType) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return rows of a row type."""
    return st.tuples(*(values(field.type) for field in row_type))


MOSTLY_INSERTS = st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE, Opcode.NOP))
ONLY_INSERTS = st.just(Opcode.INSERT)


@st.composite
def ordered_items(
    draw: st.DrawFn,
    row_type: RowType,
    origins: Sequence[int],
    times: st.SearchStrategy[int],
    *,
    opcodes: st.SearchStrategy[Opcode] = ONLY_INSERTS,
    copies: bool = False,
    rows: int = 8,
) -> tuple[TimedRow | Bound, ...]:
    """Return rows in consistent time order, with bounds between them that no later row breaks.

    ``copies``: rows may have the same place, as those have that one row has caused.
    """
    wheres = draw(st.lists(st.tuples(times, st.integers(0, len(origins) - 1)), max_size=rows))
    counters = dict.fromkeys(origins, 0)
    found: list[TimedRow] = []
    for rowtime, rank in sorted(wheres):
        again = copies and found and found[-1][:2] == (rowtime, origins[rank])
        counters[origins[rank]] += draw(st.integers(0 if again else 1, 2))
        found.append(
            TimedRow(rowtime, origins[rank], counters[origins[rank]], draw(opcodes), draw(rows_of(row_type)))
        )
    items: list[TimedRow | Bound] = []
    bound = NO_BOUND
    for index in range(len(found) + 1):
        coming = found[index] if index < len(found) else None
        if draw(st.booleans()):
            bound = draw(_bounds(bound, found[:index], coming, origins, times))
            items.append(bound)
        if coming is not None:
            items.append(coming)
            bound = bound_after(bound, coming)
    return tuple(items)


@st.composite
def _bounds(
    draw: st.DrawFn,
    before: Bound,
    passed: Sequence[TimedRow],
    coming: TimedRow | None,
    origins: Sequence[int],
    times: st.SearchStrategy[int],
) -> Bound:
    """Return a bound that is not before ``before`` and that ``coming`` does not break."""
    rowtime = max(draw(times), before.rowtime, passed[-1].rowtime if passed else EARLIEST)
    if coming is not None:
        rowtime = min(rowtime, coming.rowtime)
    if not passed or not draw(st.booleans()):
        return before if rowtime == before.rowtime else Bound(rowtime)
    # The mark of the last row that has passed, as a judge gives it, or one a little before the next.
    mark = Bound(rowtime, passed[-1].origin, passed[-1].counter)
    if coming is not None and coming.rowtime == rowtime:
        rank = origins.index(coming.origin)
        if passed[-1].rowtime != rowtime or origins.index(mark.origin) > rank:
            mark = Bound(rowtime, coming.origin, coming.counter - 1)
        elif mark.origin == coming.origin:
            mark = Bound(rowtime, mark.origin, min(mark.counter, coming.counter - 1))
    if before.rowtime == rowtime and before.origin != UNMARKED:
        old = (origins.index(before.origin), before.counter)
        if (origins.index(mark.origin), mark.counter) < old:
            return before
    return mark


def of_table(items: tuple[TimedRow | Bound, ...], key: tuple[int, ...]) -> tuple[TimedRow | Bound, ...]:
    """Return the changes of a table with a primary key that takes these."""
    rows: dict[Row, TimedRow] = {}
    found: list[TimedRow | Bound] = []
    for item in items:
        if isinstance(item, Bound):
            found.append(item)
            continue
        of = tuple(item.row[index] for index in key)
        if None in of or item.opcode == Opcode.NOP:
            continue
        if of in rows:
            found.append(item._replace(opcode=Opcode.DELETE, row=rows.pop(of).row))
        if item.opcode == Opcode.INSERT:
            rows[of] = item
            found.append(item)
    return tuple(found)


@st.composite
def logged_items(
    draw: st.DrawFn,
    row_type: RowType,
    origins: Sequence[int],
    times: st.SearchStrategy[int],
    rows: int = 10,
) -> tuple[TimedRow | Bound, ...]:
    """Return rows in log order, their times in any order, with explicit bounds between them."""
    items: list[TimedRow | Bound] = []
    reached = EARLIEST
    counters = dict.fromkeys(origins, -1)
    for rowtime, is_bound in draw(st.lists(st.tuples(times, st.integers(0, 5)), max_size=rows)):
        if is_bound == 0:
            reached = max(reached, rowtime)
            items.append(Bound(reached))
            continue
        origin = draw(st.sampled_from(list(origins)))
        counters[origin] += draw(st.integers(1, 2))
        items.append(TimedRow(rowtime, origin, counters[origin], Opcode.INSERT, draw(rows_of(row_type))))
    return tuple(items)


@st.composite
def steps_of(
    draw: st.DrawFn,
    ports: Sequence[Sequence[TimedRow | Bound]],
    *,
    drop_bounds: bool = True,
    keep_up: bool = False,
) -> list[Step]:
    """Cut each port's rows and bounds into steps, the ports in any interleaving; rows of one place stay together.

    A bound between two rows of one step is left out, as the bound after them says more;
    ``drop_bounds`` False: it ends the step. ``keep_up``: each bound says as much as the rows did; else
    it may say less, as a link does before anything has judged its rows.
    """
    left = [list(items) for items in ports]
    bounds = [NO_BOUND for _ in ports]
    steps = []
    while any(left):
        port = draw(st.sampled_from([port for port, items in enumerate(left) if items]))
        size = draw(st.integers(1, 4) | st.just(len(left[port])))
        rows: list[TimedRow] = []
        while left[port] and (size > 0 or (rows and _goes_on(left[port], rows[-1]))):
            size -= 1
            item = left[port].pop(0)
            if isinstance(item, Bound):
                bounds[port] = later(bounds[port], item)
                if not drop_bounds:
                    break
            else:
                rows.append(item)
                answer = bound_after(bounds[port], item)
                bounds[port] = later(answer, before(item)) if keep_up else answer
        steps.append(Step(port, tuple(rows), bounds[port]))
    return steps


def _goes_on(items: Sequence[TimedRow | Bound], last: TimedRow) -> bool:
    """Return whether the next row has the place of the last one."""
    following = next((each for each in items if isinstance(each, TimedRow)), None)
    return following is not None and following[:3] == last[:3]


def before(row: TimedRow) -> Bound:
    """Return the bound that stands just before a row."""
    return Bound(row.rowtime, row.origin, row.counter - 1)


def bound_after(bound: Bound, row: TimedRow) -> Bound:
    """Return what a link tells behind a row if nothing but ``bound`` has been promised before it.

    No link tells a mark once a row of another origin has passed it (property.flow.links): of two marks of
    one rowtime only the link's order of origins would tell which says more.
    """
    passed = bound.origin not in {UNMARKED, row.origin} and bound.rowtime == row.rowtime
    return before(row) if passed else bound


def tray_of(row_type: RowType, rows: Sequence[TimedRow]) -> Tray | None:
    """Return rows as a tray that is a slice of a longer one, with rubbish under each NULL."""
    if not rows:
        return None
    around = [rows[-1], *rows, rows[0]]
    tray = Tray.from_rows(row_type, around)
    return tray.with_columns(row_type, [_littered(column) for column in tray.columns]).slice(1, len(rows) + 1)


def _littered(column: Column) -> Column:
    if column.valid is None:
        return column
    if column.type.is_variable_width:
        kind = column.values.type
        filled = [
            b"rubbish" if value is None else value for value in column.values.cast(pa.binary()).to_pylist()
        ]
        _, offsets, content = pa.array(filled, pa.binary()).buffers()
        mask = pa.array(column.valid).buffers()[1]
        return Column(
            column.type,
            pa.Array.from_buffers(kind, len(filled), [mask, offsets, content]),
            column.valid,
        )
    stored = column.values.copy()
    stored[~column.valid] = RUBBISH[stored.dtype.kind]
    return Column(column.type, stored, column.valid)


def through_bytes(state: State) -> State:
    """Send a state through Arrow IPC, as a checkpoint does."""
    found = {}
    for name, table in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found[name] = pa.ipc.open_stream(sink.getvalue()).read_all()
    return found


def with_rowtime(below: Node) -> Node:
    """Return rows whose fields of TIMESTAMP are their ROWTIME, as a plan says; the rows of a case need not keep it."""
    exprs: tuple[Expr, ...] = tuple(
        RowtimeRef() if field.type == TIMESTAMP else FieldRef(at, field.type)
        for at, field in enumerate(below.row_type)
    )
    return Project("P", below, exprs, below.row_type)
