"""Windowed aggregation against looking at all rows again, whatever the frame, the cut and the restarts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contract.operators.meanings import bits
from contract.operators.over_model import frame_of, window_result
from rowtide.expr.tree import FieldRef
from rowtide.operators.contract import Fault, OperatorSite
from rowtide.operators.over.by_row.operator import OverOperator
from rowtide.plan.frames import CURRENT_ROW, UNBOUNDED_PRECEDING, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import Source, WindowAggregate
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Field, RowType, Type, decimal
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
    """Return the node of these calls, by key."""
    fields = [Field(f"F{index}", call.type) for index, call in enumerate(wanted)]
    return WindowAggregate("V", Source("S", ROW), (0,), order, frame, tuple(wanted), RowType((*ROW, *fields)))


def run(
    plan: WindowAggregate, given: Sequence[TimedRow], cuts: Sequence[int], *, restart: bool
) -> tuple[list[TimedRow], list[Fault]]:
    """Return all rows in trays of these lengths, in turn, with a bound after them that ends time."""
    operator = OverOperator(plan, OperatorSite(9))
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
            operator = OverOperator(plan, OperatorSite(9))
            operator.restore(state)
    output = operator.step(0, None, Bound(LATEST))
    out += output.tray.rows() if output.tray else ()
    faults += output.faults
    operator.account.check("V", 0)
    assert operator.held() == 0
    return out, faults


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
        inside = frame_of(plan, given_rows, given_rows[at])
        found = tuple(window_result(call, inside, given_rows[at]) for call in wanted)
        assert bits(row.row) == bits(given_rows[at].row + found)


@settings(max_examples=60, deadline=None)
@given(rows(), frames(), st.lists(calls(), min_size=1, max_size=3), st.integers(0, 25))
def test_parts_by_key_are_merged_into_what_one_operator_would_have(
    given_rows: list[TimedRow], frame: Frame, wanted: list[WindowCall], cut: int
) -> None:
    plan = node(frame, EXACT, wanted)
    assume(plan.partition_key() is not None)
    before, after = given_rows[:cut], given_rows[cut:]
    bound = Bound(before[-1].rowtime) if before else NO_BOUND
    one = OverOperator(plan, OperatorSite(9))
    first = one.step(0, Tray.from_rows(ROW, before), bound)
    parts = [OverOperator(plan, OperatorSite(9)) for _ in range(2)]
    given_by_parts: list[TimedRow] = []
    for number, part in enumerate(parts):
        mine = [row for row in before if (row.row[0] == "a") == bool(number)]
        tray = part.step(0, Tray.from_rows(ROW, mine), bound).tray
        given_by_parts += tray.rows() if tray else ()
    merged = OverOperator(plan, OperatorSite(9))
    merged.restore(OverOperator.merge([part.snapshot() for part in parts]))
    assert merged.account == one.account
    rest = Tray.from_rows(ROW, after)
    end = Bound(LATEST)
    mine_then = list(first.tray.rows() if first.tray else ())
    one_then, merged_then = one.step(0, rest, end).tray, merged.step(0, rest, end).tray
    mine_then += one_then.rows() if one_then else ()
    given_by_parts += merged_then.rows() if merged_then else ()
    assert sorted(given_by_parts, key=lambda row: row[2]) == mine_then


@pytest.mark.parametrize("restart", [False, True])
def test_a_sum_that_overflows_rejects_its_row_which_is_in_no_later_frame(restart: bool) -> None:
    frame = Frame(Edge(EdgeUnit.ROWS, -1), CURRENT_ROW)
    calls_of_both = [WindowCall("SUM", NUMBER, BIGINT), WindowCall("MAX", NUMBER, BIGINT)]
    plan = node(frame, EXACT, calls_of_both)
    values = [2**63 - 1, 5, -3, 4]
    given_rows = [
        TimedRow(100 + at, 1, at, Opcode.INSERT, ("a", value, None)) for at, value in enumerate(values)
    ]
    out, faults = run(plan, given_rows, [2], restart=restart)
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
    operator = OverOperator(plan, OperatorSite(9))
    tray = Tray.from_rows(plan.input.row_type, [TimedRow(at, 1, at, Opcode.INSERT, (at,)) for at in range(4)])
    output = operator.step(0, tray, NO_BOUND)
    assert output.tray is not None
    assert [row.row for row in output.tray.rows()] == [(0, 0), (1, 1), (2, 3), (3, 6)]
    assert output.bound == Bound(3, 1, 2)


def test_partitions_that_nothing_can_come_to_are_forgotten() -> None:
    minute = Period(PeriodEdge.FLOOR, step_ms=60_000)
    rows_of = RowType((Field("M", TIMESTAMP), Field("N", BIGINT)))
    count = (WindowCall("COUNT", None, BIGINT),)
    out = RowType((*rows_of, Field("F0", BIGINT)))
    last_minute = Frame(Edge(EdgeUnit.RANGE, -60_000), CURRENT_ROW)
    snapping = WindowAggregate("V", Source("S", rows_of), (0, 1), EXACT, Frame(), count, out, (0, minute))
    sliding = WindowAggregate("V", Source("S", rows_of), (1,), EXACT, last_minute, count, out)
    for plan in (snapping, sliding):
        operator = OverOperator(plan, OperatorSite(9))
        for now in range(0, 600_000, 10_000):
            row = (now - now % 60_000, now)
            tray = Tray.from_rows(rows_of, [TimedRow(now, 1, now, Opcode.INSERT, row)])
            operator.step(0, tray, NO_BOUND)
            assert len(operator.snapshot()["groups"]) <= 7
