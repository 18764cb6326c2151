"""Windowed aggregation against looking at all rows anew, whatever the frame, the cut and the restarts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.expr.tree import FieldRef
from rowtide.operators.contract import Fault, Place
from rowtide.operators.over import OverOperator
from rowtide.plan.frames import CURRENT_ROW, UNBOUNDED_PRECEDING, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import Source, WindowAggregate
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, VARCHAR, Field, RowType, Type, decimal
from rowtide.rowtime.bound import LATEST, NO_BOUND, Bound
from rowtide.rowtime.period import Period, PeriodEdge

KEY, NUMBER, REAL = FieldRef(0, VARCHAR), FieldRef(1, BIGINT), FieldRef(2, DOUBLE)
ROW = RowType((Field("K", VARCHAR), Field("N", BIGINT), Field("X", DOUBLE)))
AVERAGE = decimal(38, 6)
FUNCTIONS: tuple[tuple[str, FieldRef | None, Type], ...] = (
    ("COUNT", None, BIGINT),
    ("COUNT", NUMBER, BIGINT),
    ("SUM", NUMBER, BIGINT),
    ("AVG", NUMBER, AVERAGE),
    ("MIN", NUMBER, BIGINT),
    ("MAX", REAL, DOUBLE),
    ("SUM", REAL, DOUBLE),
    ("AVG", REAL, DOUBLE),
    ("VAR_POP", REAL, DOUBLE),
    ("STDDEV_SAMP", NUMBER, DOUBLE),
    ("FIRST_VALUE", NUMBER, BIGINT),
    ("LAST_VALUE", NUMBER, BIGINT),
    ("NTH_VALUE", NUMBER, BIGINT),
)
STEPPED = Period(PeriodEdge.FLOOR, step_ms=4)
EXACT = Period(PeriodEdge.EXACT)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Draw a frame that does not end before it begins."""
    unit = draw(st.sampled_from((EdgeUnit.ROWS, EdgeUnit.RANGE)))
    first, last = sorted(draw(st.tuples(st.integers(-5, 4), st.integers(-5, 4))))
    start, end = Edge(unit, first), Edge(unit, last)
    if draw(st.booleans()) and first <= 0:
        end = CURRENT_ROW
    if draw(st.integers(0, 3)) == 0:
        start = UNBOUNDED_PRECEDING
    return Frame(start, end)


@st.composite
def calls(draw: st.DrawFn) -> WindowCall:
    """Draw an aggregate or a pick."""
    function, argument, of = draw(st.sampled_from(FUNCTIONS))
    distinct = argument is not None and function in ("COUNT", "SUM", "AVG") and draw(st.booleans())
    number = draw(st.integers(1, 3)) if function == "NTH_VALUE" else 1
    ignore = function.endswith("_VALUE") and draw(st.booleans())
    return WindowCall(function, argument, of, distinct, ignore_nulls=ignore, number=number)


def rows() -> st.SearchStrategy[list[TimedRow]]:
    """Draw rows in rowtime order, with ties and NULLs."""
    values = st.tuples(
        st.integers(0, 4),
        st.sampled_from(("a", "b", None)),
        st.none() | st.integers(-9, 9),
        st.none() | st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from((1e300, -1e300, 1e-300)),
    )

    def timed(drawn: Sequence[tuple[int, str | None, int | None, float | None]]) -> list[TimedRow]:
        now, found = 100, []
        for counter, (step, key, number, real) in enumerate(drawn):
            now += step
            found.append(TimedRow(now, 1, counter, Opcode.INSERT, (key, number, real)))
        return found

    return st.lists(values, max_size=25).map(timed)


def node(frame: Frame, order: Period, wanted: Sequence[WindowCall]) -> WindowAggregate:
    """Give the node of these calls, by key."""
    fields = [Field(f"F{index}", call.type) for index, call in enumerate(wanted)]
    return WindowAggregate("V", Source("S", ROW), (0,), order, frame, tuple(wanted), RowType((*ROW, *fields)))


def ordered_by(order: Period, rowtime: int) -> int:
    """Give what a row's window is measured from."""
    return rowtime if order is EXACT else rowtime - rowtime % 4


def frame_of(frame: Frame, order: Period, given: Sequence[TimedRow], at: int) -> list[TimedRow]:
    """Look at all rows: those of the partition that are in the frame of the row at ``at``."""
    mine = [row for row in given if row.row[0] == given[at].row[0]]
    place = mine.index(given[at])
    now = ordered_by(order, given[at].rowtime)

    def after(edge: Edge, other: int) -> int:
        """Tell whether a row is before (-1), at or in (0), or behind (1) an edge."""
        if edge.unit is EdgeUnit.UNBOUNDED:
            return 1
        if edge.unit is EdgeUnit.ROWS:
            return (other > place + edge.offset) - (other < place + edge.offset)
        time = ordered_by(order, mine[other].rowtime)
        return (time > now + edge.offset) - (time < now + edge.offset)

    return [
        row
        for other, row in enumerate(mine)
        if after(frame.start, other) >= 0 and after(frame.end, other) <= 0
    ]


def expected(call: WindowCall, inside: Sequence[TimedRow]) -> object:
    """Compute a call from the rows of its frame by its definition."""
    if call.argument is None:
        return len(inside)
    assert isinstance(call.argument, FieldRef)
    every: list[Any] = [row.row[call.argument.index] for row in inside]
    values = [value for value in every if value is not None]
    if call.distinct:
        values = list(dict.fromkeys(values))
    match call.function:
        case "FIRST_VALUE" | "NTH_VALUE":
            held = values if call.ignore_nulls else every
            return held[call.number - 1] if len(held) >= call.number else None
        case "LAST_VALUE":
            held = values if call.ignore_nulls else every
            return held[-1] if held else None
        case "COUNT":
            return len(values)
    if not values:
        return None
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    match call.function:
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "SUM":
            return float(sum(exact)) if call.type == DOUBLE else sum(values)
        case "AVG" if call.type == DOUBLE:
            return float(mean)
        case "AVG":
            units = abs(mean) * 10**6
            return math.floor(units + Fraction(1, 2)) * (-1 if mean < 0 else 1)
    weight = len(exact) - (1 if call.function.endswith("SAMP") else 0)
    if not weight:
        return None
    variance = sum((value - mean) ** 2 for value in exact) / weight
    return math.sqrt(float(variance)) if call.function.startswith("STDDEV") else float(variance)


def run(
    plan: WindowAggregate, given: Sequence[TimedRow], cuts: Sequence[int], *, restart: bool
) -> tuple[list[TimedRow], list[Fault]]:
    """Give all rows in trays of these lengths, in turn, with a bound behind them that ends time."""
    operator = OverOperator(plan, Place(9))
    out: list[TimedRow] = []
    faults: list[Fault] = []
    promised = NO_BOUND
    position, turn = 0, 0
    while position < len(given):
        length = cuts[turn % len(cuts)]
        tray = Tray.from_rows(ROW, given[position : position + length])
        position, turn = position + length, turn + 1
        output = operator.step(0, tray, NO_BOUND)
        assert output.bound >= promised
        assert all(row.rowtime >= promised.rowtime for row in (output.tray.rows() if output.tray else ()))
        promised = output.bound
        out += output.tray.rows() if output.tray else ()
        faults += output.faults
        operator.account.check("V", operator.held())
        if restart:
            state = operator.snapshot()
            operator = OverOperator(plan, Place(9))
            operator.restore(state)
    output = operator.step(0, None, Bound(LATEST))
    out += output.tray.rows() if output.tray else ()
    faults += output.faults
    operator.account.check("V", 0)
    assert operator.held() == 0
    return out, faults


def comparable(value: object, of: Type) -> object:
    """Give a result so that equal means the same bits."""
    if of == AVERAGE and value is not None:
        return int(value.scaleb(6))  # type: ignore[attr-defined]
    return value.hex() if isinstance(value, float) else value


@settings(max_examples=200, deadline=None)
@given(
    rows(),
    frames(),
    st.sampled_from((EXACT, STEPPED)),
    st.lists(calls(), min_size=1, max_size=4),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.booleans(),
)
def test_every_row_sees_exactly_its_frame(
    given_rows: list[TimedRow],
    frame: Frame,
    order: Period,
    wanted: list[WindowCall],
    cuts: list[int],
    restart: bool,
) -> None:
    plan = node(frame, order, wanted)
    out, faults = run(plan, given_rows, cuts, restart=restart)
    whole, _ = run(plan, given_rows, [100], restart=False)
    assert out == whole
    if faults:
        return
    assert [row[:4] for row in out] == [row[:4] for row in given_rows]
    for at, row in enumerate(out):
        assert row.row[:3] == given_rows[at].row
        inside = frame_of(frame, order, given_rows, at)
        for call, value in zip(wanted, row.row[3:], strict=True):
            found = expected(call, inside)
            if call.type == DOUBLE and isinstance(found, float):
                found = found.hex()
            assert comparable(value, call.type) == found, (call, inside)


@settings(max_examples=60, deadline=None)
@given(rows(), frames(), st.lists(calls(), min_size=1, max_size=3), st.integers(0, 25))
def test_parts_by_key_are_merged_into_what_one_operator_would_have(
    given_rows: list[TimedRow], frame: Frame, wanted: list[WindowCall], cut: int
) -> None:
    plan = node(frame, EXACT, wanted)
    before, after = given_rows[:cut], given_rows[cut:]
    bound = Bound(before[-1].rowtime) if before else NO_BOUND
    one = OverOperator(plan, Place(9))
    first = one.step(0, Tray.from_rows(ROW, before), bound)
    parts = [OverOperator(plan, Place(9)) for _ in range(2)]
    given_by_parts: list[TimedRow] = []
    for number, part in enumerate(parts):
        mine = [row for row in before if (row.row[0] == "a") == bool(number)]
        tray = part.step(0, Tray.from_rows(ROW, mine), bound).tray
        given_by_parts += tray.rows() if tray else ()
    merged = OverOperator(plan, Place(9))
    merged.restore(OverOperator.merge([part.snapshot() for part in parts]))
    assert merged.account == one.account or frame.end.unit is EdgeUnit.ROWS
    rest = Tray.from_rows(ROW, after)
    end = Bound(LATEST)
    mine_then = list(first.tray.rows() if first.tray else ())
    one_then, merged_then = one.step(0, rest, end).tray, merged.step(0, rest, end).tray
    mine_then += one_then.rows() if one_then else ()
    given_by_parts += merged_then.rows() if merged_then else ()
    assert sorted(given_by_parts, key=lambda row: row[2]) == mine_then


def test_a_sum_that_overflows_rejects_its_row_which_is_in_no_later_frame() -> None:
    frame = Frame(Edge(EdgeUnit.ROWS, -1), CURRENT_ROW)
    calls_of_both = [WindowCall("SUM", NUMBER, BIGINT), WindowCall("MAX", NUMBER, BIGINT)]
    plan = node(frame, EXACT, calls_of_both)
    values = [2**63 - 1, 5, -3, 4]
    given_rows = [
        TimedRow(100 + at, 1, at, Opcode.INSERT, ("a", value, None)) for at, value in enumerate(values)
    ]
    out, faults = run(plan, given_rows, [2], restart=True)
    assert [row.row[3:] for row in out] == [(2**63 - 1, 2**63 - 1), (2**63 - 4, 2**63 - 1), (1, 4)]
    assert [(fault.counter, fault.reason.value) for fault in faults] == [(1, "OVERFLOW")]


def test_integers_of_any_row_type_are_one_partition_where_there_is_no_key() -> None:
    plan = WindowAggregate(
        "V",
        Source("S", RowType((Field("N", INTEGER),))),
        (),
        EXACT,
        Frame(),
        (WindowCall("SUM", FieldRef(0, INTEGER), BIGINT),),
        RowType((Field("N", INTEGER), Field("F0", BIGINT))),
    )
    operator = OverOperator(plan, Place(9))
    tray = Tray.from_rows(plan.input.row_type, [TimedRow(at, 1, at, Opcode.INSERT, (at,)) for at in range(4)])
    output = operator.step(0, tray, NO_BOUND)
    assert output.tray is not None
    assert [row.row for row in output.tray.rows()] == [(0, 0), (1, 1), (2, 3), (3, 6)]
    assert output.bound == Bound(3)
