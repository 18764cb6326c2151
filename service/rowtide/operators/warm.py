"""Compile every kernel ahead of time: ``python -m rowtide.operators.warm``.

Kernels are compiled for the argument types that they meet, and cached on disk.
Operators only ever give them a few: this runs them all once, on tiny input, so
that neither a first query nor a read-only image compiles anything.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.contract import Place
from rowtide.operators.gathering import take_values
from rowtide.operators.key_groups import KeyGroups
from rowtide.operators.key_parts import parts_of
from rowtide.operators.keys import FIRST_SLOTS, TextTable
from rowtide.operators.over_sorted import Percentile
from rowtide.operators.registry import make
from rowtide.operators.window_join_chains import FIRST_LINKS, Chains
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import (
    AsOfJoin,
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
    WindowAggregate,
    WindowJoin,
)
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Field, RowType, decimal
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import CalendarUnit, Hop, Period, PeriodEdge, Session

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


def warm() -> None:
    """Run every kernel once with every combination of types that operators give it."""
    TextTable().intern(pa.array([f"n{at}" for at in range(FIRST_SLOTS)]))
    source = Source("WARM", ROW_TYPE)
    trays = [_tray(origin) for origin in (0, 1)]
    parts_of(trays[0].columns[:1], 1)
    merge = make(Merge("WARM", (Sort("WARM", source, 0),)), Place(2, True, ((0,), (1,))))
    for port, tray in enumerate(trays):
        merge.step(port, tray, Bound(LATEST if port else ROWS // 2))
    late = make(Sort("WARM", source, ROWS), Place(2))
    for tray in (trays[0], trays[0]):
        late.step(0, tray, Bound(EARLIEST))
    late.step(0, None, Bound(LATEST))
    for width in (1, 2, 4, 8):
        for values in (np.zeros(1, dtype=f"i{width}"), np.frombuffer(bytes(width), dtype=f"i{width}")):
            take_values(values, np.zeros(1, dtype=np.int64))
    joined = RowType(tuple(Field(f"{side}{field.name}", field.type) for side in "LR" for field in ROW_TYPE))
    join = make(
        AsOfJoin("WARM", source, source, (0,), (0,), JoinKind.LEFT, joined), Place(4, True, ((0,), (1,)))
    )
    join.step(0, trays[0], Bound(LATEST))
    join.step(1, trays[1], Bound(LATEST))
    join.snapshot()
    top = make(TopChanges("WARM", source, (0,), ((1, True),), 3, 1), Place(8))
    top.step(0, trays[0], Bound(LATEST))
    for field, kind in ((0, VARCHAR), (1, BIGINT)):
        numbers = KeyGroups([kind])
        numbers.number(_with_nulls(trays[0]).columns[field : field + 1], ROWS)
        numbers.find(trays[1].columns[field : field + 1], ROWS)
    parts_of(trays[0].columns, 2)
    for primary in ((0,), ()):
        table = make(KeyedTable("WARM", source, primary), Place(6))
        table.step(0, trays[0], Bound(LATEST))
    for field in (0, 1):
        windowed = WindowJoin(
            "WARM",
            source,
            source,
            (field,),
            (field,),
            0,
            1,
            JoinTime.LATER,
            JoinKind.FULL,
            joined,
            None,
            1,
            1,
        )
        window_join = make(windowed, Place(5, True, ((0,), (1,))))
        for cut in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS)):
            for port, tray in enumerate(trays):
                window_join.step(port, tray.slice(cut.start, cut.stop), Bound(int(tray.rowtime[cut.start])))
        make(windowed, Place(5, True, ((0,), (1,)))).restore(window_join.snapshot())
    Chains(hashed=True).with_room(0, 0, 2 * FIRST_LINKS, 0)
    tagged = RowType((Field("$SIDE", INTEGER), Field("$KEY", VARCHAR), *joined))
    tables = make(TableJoin("WARM", Source("WARM", tagged), 1, 4, JoinKind.FULL, joined), Place(7))
    sides = [Column.from_values(INTEGER, [side] * ROWS) for side in (0, 1)]
    for side, tray in zip(sides, trays, strict=True):
        fields = (side, tray.columns[0], *tray.columns, *tray.columns)
        tables.step(0, tray.with_columns(tagged, fields), Bound(LATEST))
    keys = ((0,), (1,), (0, 1), ())
    for key in keys:
        for tray in (trays[0], _with_nulls(trays[0])):
            group = make(_group(source, key), Place(3))
            group.step(0, tray, Bound(int(tray.rowtime[-1])))
            group.step(0, None, Bound(LATEST // 2))
        for period in (None, _group(source, key).period):
            running = make(_changes(source, key, period), Place(6))
            for tray in (trays[0], _with_nulls(trays[0])):
                running.step(0, tray, Bound(int(tray.rowtime[0])))
            running.step(0, None, Bound(LATEST // 2))
        of_changes = _of_changes(source, key)
        changed = make(of_changes, Place(6))
        for tray in (trays[0], _with_nulls(trays[0])):
            changed.step(0, tray.slice(1, ROWS), Bound(int(tray.rowtime[0])))
        make(of_changes, Place(6)).restore(changed.snapshot())
    for group_node in _windowed_groups(source):
        group = make(group_node, Place(3))
        group.step(0, trays[0], Bound(LATEST // 2))
    forgotten = Percentile(WindowCall("MEDIAN", FieldRef(1, BIGINT), DOUBLE, fraction=Fraction(1, 2)), BIGINT)
    forgotten.reserve(1)
    forgotten.keep(np.zeros(0, dtype=np.int64))
    for frame in FRAMES:
        window = make(_window(source, frame), Place(3))
        window.step(0, trays[0], Bound(int(trays[0].rowtime[-1])))
        state = window.snapshot()
        make(_window(source, frame), Place(3)).restore(state)


def _tray(origin: int) -> Tray:
    # The first number is so large that sums are tried before they are added.
    rows = [
        TimedRow(at, origin, at, Opcode.INSERT, (f"n{at % 7}", at or 2**62, at / 3, Decimal(at)))
        for at in range(ROWS)
    ]
    return Tray.from_rows(ROW_TYPE, rows)


def _with_nulls(tray: Tray) -> Tray:
    """Give a tray with a NULL in every other row of each column."""
    odd = np.arange(len(tray)) % 2 == 1
    return tray.with_columns(tray.row_type, [column.where_valid(odd) for column in tray.columns])


def _group(source: Source, keys: tuple[int, ...]) -> GroupByPeriod:
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
    return GroupByPeriod("WARM", source, period, keys, tuple(calls), RowType(tuple(fields)))


def _windowed_groups(source: Source) -> tuple[GroupByHop, GroupBySession]:
    count = AggregateCall("COUNT", None, BIGINT)
    row_type = RowType((Field("$start", TIMESTAMP), Field("$count", BIGINT)))
    return (
        GroupByHop("WARM", source, Hop(1, 2), (), (count,), row_type),
        GroupBySession("WARM", source, Session(1), (), (count,), row_type),
    )


def _window(source: Source, frame: Frame) -> WindowAggregate:
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
    return WindowAggregate("WARM", source, (0,), Period(PeriodEdge.EXACT), frame, tuple(calls), row_type)


def _changes(source: Source, keys: tuple[int, ...], window: Period | None) -> GroupChanges:
    """Give groups whose changes are told, compiled; in a period there are rows that change nothing."""
    calls = [AggregateCall("COUNT", None if window is None else FieldRef(1, BIGINT), BIGINT)]
    calls.append(AggregateCall("AVG", FieldRef(2, DOUBLE), DOUBLE))
    for index, kind in ((1, BIGINT), (2, DOUBLE)):
        calls += [AggregateCall(name, FieldRef(index, kind), kind) for name in ("SUM", "MIN", "MAX")]
    fields = [] if window is None else [Field("$period", TIMESTAMP)]
    fields += [ROW_TYPE[index] for index in keys]
    fields += [Field(f"$aggregate{number}", call.type) for number, call in enumerate(calls)]
    return GroupChanges("WARM", source, window, keys, tuple(calls), RowType(tuple(fields)))


def _of_changes(source: Source, keys: tuple[int, ...]) -> GroupChanges:
    """Give groups of changes, compiled."""
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
    return GroupChanges("WARM", source, None, keys, calls, RowType(tuple(fields)), of_changes=True)


if __name__ == "__main__":
    warm()
