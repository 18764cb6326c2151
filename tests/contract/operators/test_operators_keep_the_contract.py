"""Every operator against its row-at-a-time model: any cut, any interleaving, a restart anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.cases import CASES
from contract.operators.harness import Run, by_place, check_same, follow, in_input_order, shown
from contract.operators.inputs import Case, Step, steps_of, through_bytes, tray_of
from contract.operators.kinds import CASES_OF
from contract.operators.meanings import as_key, bits
from contract.operators.models import MODELS, model_of
from rowtide.errors import FaultError
from rowtide.operators.contract import Gathering, Operator, State, wants_of
from rowtide.operators.registry import OPERATORS, make, operator_type, split
from rowtide.operators.splitting import can_split
from rowtide.operators.storage.key_parts import parts_of
from rowtide.plan.nodes import (
    AsOfJoin,
    AsOfJoinOn,
    Filter,
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Merge,
    Model,
    NumberedChanges,
    Project,
    Promote,
    Sort,
    TableJoin,
    TopChanges,
    WindowAggregate,
    WindowJoin,
)
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound

KINDS = sorted(CASES, key=lambda kind: kind.__name__)
Law = Callable[[st.DataObject, type], None]


def test_every_registered_operator_has_cases_and_a_model() -> None:
    assert set(CASES) == set(OPERATORS)
    assert set(MODELS) == set(OPERATORS)


def steps_for(data: st.DataObject, case: Case) -> list[Step]:
    # A bound between two rows judges the second where rows come in log order: it is no transport.
    return data.draw(steps_of(case.ports, drop_bounds=not isinstance(case.node, Sort)))


def it_does_what_its_model_does_however_its_input_is_cut(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    run, model = Run(case), model_of(case.node, case.place)
    for step in steps_for(data, case):
        run.step(step)
        follow(model, step)
        check_same(run, model)
        if data.draw(st.integers(0, 3)) == 0:
            run.restart()
            assert run.operator.held() == model.held()


def two_interleavings_and_cuts_give_the_same_rows_in_the_same_order(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    runs = []
    for _ in range(2):
        run = Run(case)
        for step in steps_for(data, case):
            run.step(step)
        runs.append(run)
    first, second = runs
    assert shown(first.out) == shown(second.out)
    assert in_input_order(first.faults) == in_input_order(second.faults)
    assert first.bound.rowtime == second.bound.rowtime
    assert first.operator.account == second.operator.account


def it_holds_nothing_once_every_port_is_at_the_end_of_time(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    run, model = Run(case), model_of(case.node, case.place)
    for step in [*steps_for(data, case), *(Step(port, (), Bound(LATEST)) for port in range(len(case.ports)))]:
        run.step(step)
        follow(model, step)
    check_same(run, model)
    assert run.operator.held() == 0


def gathered_input_gives_what_steps_give(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    operator = make(case.node, case.place)
    assert isinstance(operator, Gathering)
    run, model = Run(case, operator), model_of(case.node, case.place)
    for step in steps_for(data, case):
        follow(model, step)
        operator.offer(step.port, tray_of(case.row_types[step.port], step.rows), step.bound)
        if data.draw(st.booleans()):
            run.take(operator.release())
            check_same(run, model)


def what_it_says_it_waits_for_lets_it_go_on(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    run = Run(case)
    answer = [Bound(EARLIEST)] * len(case.ports)
    taken = steps_for(data, case)[: data.draw(st.integers(0, 40))]
    for step in taken:
        run.step(step)
        answer[step.port] = answer[step.port].raised(step.bound)
    held, given = run.operator.held(), len(run.out)
    wanted = data.draw(st.none() | st.integers(-6, 12))
    wants = wants_of(run.operator, len(case.ports), wanted)
    if wanted is None and held:
        assert wants, "rows are held and nothing is waited for"
    if not wants or any(want.bound is None for want in wants) or (wanted is None and not held):
        return
    bounds = {port: max(want.bound or 0 for want in wants if want.port == port) for port, _ in wants}
    reached = [
        max(
            [answer[port].rowtime, *(row.rowtime for step in taken if step.port == port for row in step.rows)]
        )
        for port in range(len(case.ports))
    ]
    # What a port has promised already is nothing to ask for.
    asked = {port: bound for port, bound in bounds.items() if bound > reached[port]}
    lesser = [asked | {port: bound - 1} for port, bound in asked.items()] if is_least(case, wanted) else []
    without = [run.copied() for _ in lesser]
    promise(run, answer, bounds)
    if wanted is None:
        assert (run.operator.held(), len(run.out)) != (held, given)
    else:
        assert run.bound.rowtime >= wanted
    for less, other in zip(lesser, without, strict=True):
        promise(other, answer, less)
        if wanted is not None:
            assert other.bound.rowtime < wanted, "less would have done"
        elif len(run.out) > given:
            assert len(other.out) == given, "less would have let a row go"
        else:
            assert (other.operator.held(), len(other.out)) == (held, given), "less would have done"


def is_least(case: Case, wanted: int | None) -> bool:
    """Return whether an operator says what least it needs: all do for the rows they hold, joins also else."""
    return wanted is None or isinstance(case.node, WindowJoin)


def promise(run: Run, answer: list[Bound], bounds: dict[int, int]) -> None:
    """Let ports promise bounds without rows."""
    for port, bound in bounds.items():
        run.step(Step(port, (), answer[port].raised(Bound(bound))))


def parts_split_by_key_merge_into_what_one_operator_has(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    keys = case.node.partition_key()
    if keys is None and not case.node.is_row_wise:
        # A table without a primary key, or a windowed join without equal fields, has no parts.
        return
    parts = data.draw(st.integers(1, 3))
    steps = data.draw(steps_of(case.ports, keep_up=True))
    cut = data.draw(st.integers(0, len(steps)))
    whole = Run(case)
    split_ = [Run(case) for _ in range(parts)]
    homes: dict[object, int] = {}

    def home(step: Step, row: Row) -> int:
        if keys is None:
            return data.draw(st.integers(0, parts - 1))
        key = bits(tuple(as_key(row[index]) for index in keys[step.port]))
        return homes.setdefault(key, data.draw(st.integers(0, parts - 1)))

    for step in steps[:cut]:
        whole.step(step)
        where = [home(step, row.row) for row in step.rows]
        for number, part in enumerate(split_):
            mine = tuple(row for row, at in zip(step.rows, where, strict=True) if at == number)
            part.step(Step(step.port, mine, step.bound))
    together = sorted(shown_without_place(row) for part in split_ for row in part.out)
    assert together == sorted(shown_without_place(row) for row in whole.out)
    states = [through_bytes(part.operator.snapshot()) for part in split_]
    check_goes_on(whole, merged(case, states), steps[cut:])


def a_state_that_is_split_goes_on_in_parts_as_one_operator(data: st.DataObject, kind: type) -> None:
    case = data.draw(CASES[kind])
    whole = Run(case)
    steps = data.draw(steps_of(case.ports, keep_up=True))
    first, last = sorted(data.draw(st.tuples(*(st.integers(0, len(steps)),) * 2)))
    for step in steps[:first]:
        whole.step(step)
    state, parts = through_bytes(whole.operator.snapshot()), data.draw(st.integers(2, 3))
    if not can_split(case.node):
        with pytest.raises(FaultError, match="cannot be split"):
            split(case.node, state, parts)
        return
    states = [through_bytes(each) for each in split(case.node, state, parts)]
    check_goes_on(whole.copied(), merged(case, states), steps[first:])
    parted = [Run(case, restored(case, each), is_split=True) for each in states]
    given_ = len(whole.out)
    for step in steps[first:last]:
        whole.step(step)
        home = homes_of(case, step, parts)
        for number, part in enumerate(parted):
            mine = tuple(row for row, at in zip(step.rows, home, strict=True) if at == number)
            part.step(Step(step.port, mine, step.bound))
    together = sorted(shown_without_place(row) for part in parted for row in part.out)
    assert together == sorted(shown_without_place(row) for row in whole.out[given_:])
    after = [through_bytes(part.operator.snapshot()) for part in parted]
    check_goes_on(whole, merged(case, after), steps[last:])


def homes_of(case: Case, step: Step, parts: int) -> list[int]:
    """Return the part of each row of a step, as a parallel run splits rows."""
    tray = tray_of(case.row_types[step.port], step.rows)
    # What looks at one row at a time may be split any way.
    key = (case.node.partition_key() or [range(len(case.row_types[0]))] * len(case.ports))[step.port]
    return [] if tray is None else parts_of([tray.columns[index] for index in key], parts).tolist()


def restored(case: Case, state: State) -> Operator:
    """Return an operator that begins with a state."""
    operator = make(case.node, case.place)
    operator.restore(state)
    return operator


def merged(case: Case, states: Sequence[State]) -> Run:
    """Return an operator that begins with the states of parts."""
    node_type: Any = type(case.node)
    return Run(case, restored(case, through_bytes(operator_type(node_type).merge(states))))


def check_goes_on(whole: Run, merged: Run, steps: Sequence[Step]) -> None:
    """Check that an operator with a merged state continues as the whole does, to the end of time."""
    assert merged.operator.held() == whole.operator.held()
    assert merged.operator.account == whole.operator.account
    before = len(whole.out), len(whole.faults)
    for step in [*steps, *(Step(port, (), Bound(LATEST)) for port in range(len(whole.case.ports)))]:
        whole.step(step)
        merged.step(step)
        assert by_place(merged.out) == by_place(whole.out[before[0] :])
        assert merged.faults == whole.faults[before[1] :]
    assert merged.operator.account == whole.operator.account


def shown_without_place(row: TimedRow) -> str:
    """Return a row without its origin and counter: operators that make rows number them each by itself."""
    return repr(bits((row.rowtime, int(row.opcode), row.row)))


EVERY, SEVERAL_PORTS = tuple(KINDS), (Merge,)
CAN_BE_SPLIT = (
    Filter,
    Project,
    Promote,
    GroupByPeriod,
    GroupByHop,
    GroupByCumulate,
    GroupBySession,
    GroupChanges,
    WindowAggregate,
    KeyedTable,
    AsOfJoin,
    AsOfJoinOn,
    WindowJoin,
    TableJoin,
    TopChanges,
    NumberedChanges,
    Model,
    *CASES_OF,
)
LAWS: tuple[tuple[Law, tuple[type, ...]], ...] = (
    (it_does_what_its_model_does_however_its_input_is_cut, EVERY),
    (two_interleavings_and_cuts_give_the_same_rows_in_the_same_order, EVERY),
    (it_holds_nothing_once_every_port_is_at_the_end_of_time, EVERY),
    (what_it_says_it_waits_for_lets_it_go_on, EVERY),
    (gathered_input_gives_what_steps_give, SEVERAL_PORTS),
    (parts_split_by_key_merge_into_what_one_operator_has, CAN_BE_SPLIT),
    (a_state_that_is_split_goes_on_in_parts_as_one_operator, EVERY),
)
each_law = pytest.mark.parametrize(
    ("law", "kind"),
    [pytest.param(law, kind, id=f"{kind.__name__}-{law.__name__}") for law, kinds in LAWS for kind in kinds],
)


@each_law
@settings(max_examples=20)
@given(data=st.data())
def test_an_operator_keeps_the_contract(law: Law, kind: type, data: st.DataObject) -> None:
    law(data, kind)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@each_law
@settings(settings.get_profile("long"))
@given(data=st.data())
def test_an_operator_keeps_the_contract_for_long(law: Law, kind: type, data: st.DataObject) -> None:
    law(data, kind)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_an_empty_tray_is_no_rows(kind: type) -> None:
    @given(case=CASES[kind])
    @settings(max_examples=5)
    def check(case: Case) -> None:
        operator = make(case.node, case.place)
        for port, row_type in enumerate(case.row_types):
            output = operator.step(port, Tray.empty(row_type), Bound(3))
            assert output.tray is None
            assert operator.account.rows_in == 0

    check()
