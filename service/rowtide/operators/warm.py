"""Compile every kernel ahead of time: ``python -m rowtide.operators.warm``.

Kernels are compiled for their actual argument types, and cached on disk.
Operators only ever give them a few: this runs them all once, on tiny input, so
that neither a first query nor a read-only image compiles anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.aggregates.windows.percentiles import Percentile
from rowtide.operators.contract import OperatorSite
from rowtide.operators.join.window_join_chains import FIRST_LINKS, Chains
from rowtide.operators.registry import make
from rowtide.operators.storage.gathering import take_values
from rowtide.operators.storage.key_parts import parts_of
from rowtide.operators.storage.keys import FIRST_SLOTS, TextTable
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import (
    AsOfJoin,
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    JoinKind,
    JoinTime,
    KeyedTable,
    Merge,
    Sort,
    Source,
    TableJoin,
    TopChanges,
    WindowAggregate,
    WindowJoin,
)
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Field, RowType, decimal
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import CalendarUnit, Cumulate, Hop, Period, PeriodEdge, Session

ROW_TYPE = RowType(
    (
        Field("NAME", VARCHAR),
        Field("NUMBER", BIGINT),
        Field("SHARE", DOUBLE),
        Field("PRICE", decimal(10, 2)),
    )
)
FRAMES = (
    Frame(),
    *(Frame(Edge(unit, -1), CURRENT_ROW) for unit in (EdgeUnit.ROWS, EdgeUnit.RANGE)),
    Frame(Edge(EdgeUnit.RANGE, -1), Edge(EdgeUnit.RANGE, 1)),
)
ROWS = 64
"""More than a tray of one row, and little enough to take no time."""


SOURCE = Source("WARM", ROW_TYPE)
PAIRS = RowType(tuple(Field(f"{side}{field.name}", field.type) for side in "LR" for field in ROW_TYPE))
KEYS = ((0,), (1,), (0, 1), ())
ONE, TWO = OperatorSite(2), OperatorSite(2, True, ((0,), (1,)))
"""Positions of operators with one input, and with two."""


def warm() -> None:
    """Run every kernel once with every combination of types that operators use."""
    trays = [_tray(origin) for origin in (0, 1)]
    _warm_keys(trays)
    _warm_order(trays)
    _warm_tables(trays)
    _warm_joins(trays)
    for keys in KEYS:
        _warm_groups(keys, (trays[0], _with_nulls(trays[0])))
    for node in _windowed_groups():
        make(node, ONE).step(0, trays[0], Bound(LATEST // 2))
    _warm_windows(trays[0])


def _warm_keys(trays: Sequence[Tray]) -> None:
    TextTable().intern(pa.array([f"n{at}" for at in range(FIRST_SLOTS)]))
    for width in (1, 2, 4, 8):
        for values in (np.zeros(1, dtype=f"i{width}"), np.frombuffer(bytes(width), dtype=f"i{width}")):
            take_values(values, np.zeros(1, dtype=np.int64))
    parts_of(trays[0].columns[:1], 1)
    parts_of(trays[0].columns, 2)
    for field, kind in ((0, VARCHAR), (1, BIGINT)):
        numbers = KeyGroups([kind])
        numbers.number(_with_nulls(trays[0]).columns[field : field + 1], ROWS)
        numbers.find(trays[1].columns[field : field + 1], ROWS)


def _warm_order(trays: Sequence[Tray]) -> None:
    merge = make(Merge("WARM", (Sort("WARM", SOURCE, 0),)), TWO)
    for port, tray in enumerate(trays):
        merge.step(port, tray, Bound(LATEST if port else ROWS // 2))
    late = make(Sort("WARM", SOURCE, ROWS), ONE)
    for tray in (trays[0], trays[0]):
        late.step(0, tray, Bound(EARLIEST))
    late.step(0, None, Bound(LATEST))
    top = make(TopChanges("WARM", SOURCE, (0,), ((1, True),), 3, 1), ONE)
    top.step(0, trays[0], Bound(LATEST))


def _warm_tables(trays: Sequence[Tray]) -> None:
    for primary in ((0,), ()):
        make(KeyedTable("WARM", SOURCE, primary), ONE).step(0, trays[0], Bound(LATEST))
    sided = RowType((*SOURCE.row_type, Field("$SIDE", INTEGER, nullable=False)))
    copies = make(CombinedCopies("WARM", Source("WARM", sided), "EXCEPT"), ONE)
    side = Column.from_values(INTEGER, [0] * ROWS)
    copies.step(0, trays[0].with_columns(sided, (*trays[0].columns, side)), Bound(LATEST))
    tagged = RowType((Field("$SIDE", INTEGER), Field("$KEY", VARCHAR), *PAIRS))
    tables = make(TableJoin("WARM", Source("WARM", tagged), 1, 4, JoinKind.FULL, PAIRS), ONE)
    for number, tray in enumerate(trays):
        side = Column.from_values(INTEGER, [number] * ROWS)
        fields = (side, tray.columns[0], *tray.columns, *tray.columns)
        tables.step(0, tray.with_columns(tagged, fields), Bound(LATEST))


def _warm_joins(trays: Sequence[Tray]) -> None:
    as_of = make(AsOfJoin("WARM", SOURCE, SOURCE, (0,), (0,), JoinKind.LEFT, PAIRS), TWO)
    for port, tray in enumerate(trays):
        as_of.step(port, tray, Bound(LATEST))
    as_of.snapshot()
    for key in ((0,), (1,)):
        times = (0, 1, JoinTime.LATER, JoinKind.FULL)
        windowed = WindowJoin("WARM", SOURCE, SOURCE, key, key, *times, PAIRS, None, 1, 1)
        join = make(windowed, TWO)
        for cut in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS)):
            for port, tray in enumerate(trays):
                join.step(port, tray.slice(cut.start, cut.stop), Bound(int(tray.rowtime[cut.start])))
        make(windowed, TWO).restore(join.snapshot())
    Chains(hashed=True).with_room(0, 0, 2 * FIRST_LINKS, 0)


def _warm_groups(keys: tuple[int, ...], trays: Sequence[Tray]) -> None:
    """Group by some keys, with NULLs and without."""
    by_period = _group(keys)
    for tray in trays:
        group = make(by_period, ONE)
        group.step(0, tray, Bound(int(tray.rowtime[-1])))
        group.step(0, None, Bound(LATEST // 2))
    for period in (None, by_period.period):
        running = make(_changes(keys, period), ONE)
        for tray in trays:
            running.step(0, tray, Bound(int(tray.rowtime[0])))
        running.step(0, None, Bound(LATEST // 2))
    of_changes = _of_changes(keys)
    changed = make(of_changes, ONE)
    for tray in trays:
        changed.step(0, tray.slice(1, ROWS), Bound(int(tray.rowtime[0])))
    make(of_changes, ONE).restore(changed.snapshot())


def _warm_windows(tray: Tray) -> None:
    for frame in FRAMES:
        window = make(_window(frame), ONE)
        window.step(0, tray, Bound(int(tray.rowtime[-1])))
        make(_window(frame), ONE).restore(window.snapshot())
    median = WindowCall("MEDIAN", FieldRef(1, BIGINT), DOUBLE, fraction=Fraction(1, 2))
    forgotten = Percentile(median, BIGINT)
    forgotten.reserve(1)
    forgotten.keep(np.zeros(0, dtype=np.int64))


def _tray(origin: int) -> Tray:
    # The first number is so large that sums are tried before they are added.
    rows = [
        TimedRow(at, origin, at, Opcode.INSERT, (f"n{at % 7}", at or 2**62, at / 3, Decimal(at)))
        for at in range(ROWS)
    ]
    return Tray.from_rows(ROW_TYPE, rows)


def _with_nulls(tray: Tray) -> Tray:
    """Return a tray with a NULL in every other row of each column."""
    odd = np.arange(len(tray)) % 2 == 1
    return tray.with_columns(tray.row_type, [column.where_valid(odd) for column in tray.columns])


def _group(keys: tuple[int, ...]) -> GroupByPeriod:
    calls = [AggregateCall("COUNT", None, BIGINT)]
    for index, kind in enumerate(field.type for field in ROW_TYPE):
        argument = FieldRef(index, kind)
        if kind.is_numeric:
            total = BIGINT if kind.is_integer else decimal(38, 2) if kind.is_exact else DOUBLE
            mean = decimal(38, 6) if kind.is_exact else DOUBLE
            calls.append(AggregateCall("SUM", argument, total))
            calls.append(AggregateCall("AVG", argument, mean))
        calls += [AggregateCall(name, argument, kind) for name in ("MIN", "MAX")]
    fields = [Field("$period", TIMESTAMP), *(ROW_TYPE[index] for index in keys)]
    fields += [Field(f"$aggregate{number}", call.type) for number, call in enumerate(calls)]
    period = Period(PeriodEdge.FLOOR, CalendarUnit.SECOND)
    return GroupByPeriod("WARM", SOURCE, period, keys, tuple(calls), RowType(tuple(fields)))


def _windowed_groups() -> tuple[GroupByHop, GroupByCumulate, GroupBySession]:
    count = AggregateCall("COUNT", None, BIGINT)
    row_type = RowType((Field("$start", TIMESTAMP), Field("$count", BIGINT)))
    return (
        GroupByHop("WARM", SOURCE, Hop(1, 2), (), (count,), row_type),
        GroupByCumulate("WARM", SOURCE, Cumulate(1, 2), (), (count,), row_type),
        GroupBySession("WARM", SOURCE, Session(1), (), (count,), row_type),
    )


def _window(frame: Frame) -> WindowAggregate:
    calls = [WindowCall("COUNT", None, BIGINT)]
    if frame.start.unit is EdgeUnit.UNBOUNDED:
        calls.append(WindowCall("RANK", None, BIGINT))
    for name, index, of in (
        ("AVG", 1, decimal(38, 6)),
        ("AVG", 2, DOUBLE),
        ("STDDEV_SAMP", 2, DOUBLE),
        ("MIN", 1, BIGINT),
        ("MAX", 2, DOUBLE),
        ("LAST_VALUE", 1, BIGINT),
        ("FIRST_VALUE", 2, DOUBLE),
        ("PERCENTILE_DISC", 1, BIGINT),
        ("PERCENTILE_DISC", 2, DOUBLE),
        ("ANY_VALUE", 1, BIGINT),
        ("ANY_VALUE", 2, DOUBLE),
        ("COUNT", 1, BIGINT),
    ):
        distinct = name == "COUNT"
        half = Fraction(1, 2) if name == "PERCENTILE_DISC" else None
        calls.append(WindowCall(name, FieldRef(index, ROW_TYPE[index].type), of, distinct, fraction=half))
    fields = [Field(f"$call{number}", call.type) for number, call in enumerate(calls)]
    row_type = RowType((*ROW_TYPE, *fields))
    return WindowAggregate("WARM", SOURCE, (0,), Period(PeriodEdge.EXACT), frame, tuple(calls), row_type)


def _changes(keys: tuple[int, ...], window: Period | None) -> GroupChanges:
    """Return groups whose changes are emitted, compiled; in a period there are rows that change nothing."""
    calls = [AggregateCall("COUNT", None if window is None else FieldRef(1, BIGINT), BIGINT)]
    calls.append(AggregateCall("AVG", FieldRef(2, DOUBLE), DOUBLE))
    for index, kind in ((1, BIGINT), (2, DOUBLE)):
        calls += [AggregateCall(name, FieldRef(index, kind), kind) for name in ("SUM", "MIN", "MAX")]
    fields = [] if window is None else [Field("$period", TIMESTAMP)]
    fields += [ROW_TYPE[index] for index in keys]
    fields += [Field(f"$aggregate{number}", call.type) for number, call in enumerate(calls)]
    return GroupChanges("WARM", SOURCE, window, keys, tuple(calls), RowType(tuple(fields)))


def _of_changes(keys: tuple[int, ...]) -> GroupChanges:
    """Return groups of changes, compiled."""
    number, share = FieldRef(1, BIGINT), FieldRef(2, DOUBLE)
    calls = (
        AggregateCall("COUNT", None, BIGINT),
        AggregateCall("SUM", number, BIGINT),
        AggregateCall("AVG", number, decimal(38, 6)),
        AggregateCall("MIN", number, BIGINT),
        AggregateCall("MAX", share, DOUBLE),
    )
    fields = [ROW_TYPE[index] for index in keys]
    fields += [Field(f"$aggregate{number}", call.type) for number, call in enumerate(calls)]
    return GroupChanges("WARM", SOURCE, None, keys, calls, RowType(tuple(fields)), of_changes=True)


if __name__ == "__main__":
    warm()
