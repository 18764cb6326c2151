"""The compiled windowed join against the one that goes row by row, step by step and snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.operators.by_row.window_join_by_row import WindowJoinByRow
from contract.operators.cases import window_joins
from contract.operators.harness import Run, shown
from contract.operators.inputs import Case, Step, steps_of, through_bytes
from rowtide.operators.contract import Explaining, Operator, OperatorSite, Want
from rowtide.operators.join import window_join, window_join_chains
from rowtide.operators.join.window_join import WindowJoinOperator
from rowtide.plan.nodes import JoinKind, JoinTime, Source, WindowJoin
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType, Type
from rowtide.rowtime.bound import LATEST, NO_BOUND, Bound


def join_of(kind: Type, join_kind: JoinKind = JoinKind.INNER, time: JoinTime = JoinTime.RIGHT) -> WindowJoin:
    """Return a join of two streams by their first field, right up to 10 ms after left."""
    left, right = (RowType((Field(f"{side}K", kind), Field(f"{side}N", VARCHAR))) for side in "LR")
    both = RowType((*left.fields, *right.fields))
    return WindowJoin("J", Source("L", left), Source("R", right), (0,), (0,), 0, 10, time, join_kind, both)


def compare(one: Run, other: Run) -> None:
    """Check that two runs have given, told, promised, counted and remembered the same."""
    assert shown(one.out) == shown(other.out)
    assert one.faults == other.faults
    assert one.bound == other.bound
    assert one.operator.held() == other.operator.held()
    assert one.operator.account == other.operator.account
    for wanted in (None, -1, 3):
        assert wants(one.operator, wanted) == wants(other.operator, wanted)


def wants(operator: Operator, bound: int | None) -> Sequence[Want]:
    """Return what an operator waits for."""
    assert isinstance(operator, Explaining)
    return operator.wants(bound)


@given(data=st.data(), case=window_joins(), few=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, case: Case, few: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # So few that rows are found in several turns, and keys are numbered again all the time.
        patch.setattr(window_join, "PAIRS", 2 if few else 1 << 16)
        patch.setattr(window_join, "FORGET_KEYS_OVER", 0 if few else 1 << 16)
        patch.setattr(window_join_chains, "FIRST_LINKS", 1 if few else 64)
        assert isinstance(case.node, WindowJoin)
        compiled = Run(case, WindowJoinOperator(case.node, case.place))
        by_row = Run(case, WindowJoinByRow(case.node, case.place))
        for step in [*data.draw(steps_of(case.ports)), *(Step(port, (), Bound(LATEST)) for port in (0, 1))]:
            compiled.step(step)
            by_row.step(step)
            compare(compiled, by_row)
            if data.draw(st.integers(0, 3)) == 0:
                # Each goes on with what the other remembers.
                states = [through_bytes(run.operator.snapshot()) for run in (by_row, compiled)]
                compiled.operator = WindowJoinOperator(case.node, case.place)
                by_row.operator = WindowJoinByRow(case.node, case.place)
                compiled.operator.restore(states[0])
                by_row.operator.restore(states[1])
                compare(compiled, by_row)


@pytest.mark.parametrize("time", JoinTime)
def test_thousands_of_rows_come_out_alike_however_they_are_cut(time: JoinTime) -> None:
    node = join_of(BIGINT, JoinKind.FULL, time)
    case = Case(node, OperatorSite(9, True, ((1,), (2,))), ((), ()))
    rows = [
        [TimedRow(at // 2, port + 1, at, Opcode.INSERT, (at % 10, f"row {at}")) for at in range(12_000)]
        for port in (0, 1)
    ]
    whole = Run(case, WindowJoinOperator(node, case.place))
    cut: Run = Run(case, WindowJoinOperator(node, case.place))
    for port in (0, 1):
        whole.step(Step(port, tuple(rows[port]), Bound(LATEST)))
    for start in range(0, 12_000, 125):
        for port in (0, 1):
            cut.step(Step(port, tuple(rows[port][start : start + 125]), NO_BOUND))
    for port in (0, 1):
        cut.step(Step(port, (), Bound(LATEST)))
    compare(cut, whole)
    assert len(whole.out) > 12_000
    assert whole.operator.held() == 0
    assert in_memory(cut.operator) < 5_000


@pytest.mark.parametrize("forget_over", [0, 1 << 16])
@pytest.mark.parametrize("kind", [BIGINT, VARCHAR])
def test_thousands_of_keys_that_come_and_go_meet_as_row_by_row(kind: Type, forget_over: int) -> None:
    draw = Random(7)
    node = join_of(kind, JoinKind.FULL, JoinTime.LATER)
    case = Case(node, OperatorSite(9, True, ((1,), (2,))), ((), ()))
    compiled = Run(case, WindowJoinOperator(node, case.place))
    by_row = Run(case, WindowJoinByRow(node, case.place))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_join, "FORGET_KEYS_OVER", forget_over)
        for start in range(0, 3000, 300):
            for port in (0, 1):
                # Codes next to one another, codes far apart, and some whose low bits are all alike.
                numbers = [
                    draw.choice(
                        (at // 4 + draw.randrange(4), draw.randrange(40) << 40, draw.randrange(-9, 9))
                    )
                    for at in range(start, start + 300)
                ]
                keys = numbers if kind is BIGINT else [f"k{number}" for number in numbers]
                rows = tuple(
                    TimedRow(at // 8, port + 1, at, Opcode.INSERT, (key, f"row {at}"))
                    for at, key in enumerate(keys, start)
                )
                for run in (compiled, by_row):
                    run.step(Step(port, rows, NO_BOUND))
    for port in (0, 1):
        for run in (compiled, by_row):
            run.step(Step(port, (), Bound(LATEST)))
    compare(compiled, by_row)
    assert compiled.operator.account.rows_out > 3000


def in_memory(operator: Operator) -> int:
    """Count the rows that a side still has in its columns, the most of both."""
    assert isinstance(operator, WindowJoinOperator)
    state: dict[str, pa.Table] = dict(operator.snapshot())
    assert not len(state["left"])
    return max(side.store.end - side.store.base for side in operator._sides)
