"""Every operator in Spark tasks: split by its key, its parts put together, and on from there.

What Spark gave and what the model gives for the same rows must be the same; then one operator takes over
the merged state and processes the rest, as the live service does after a backfill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from contract.operators.cases import CASES
from contract.operators.harness import Run, by_place, fault_seen, follow, shown
from contract.operators.inputs import Case, Step, steps_of
from contract.operators.meanings import bits
from contract.operators.model import FaultSeen, Model
from contract.operators.models import model_of
from contract.operators.spark_tasks import OUT, CaseWork, Given, LoggedIntake, definition_of, messages, run
from rowtide.operators.contract import Account, State
from rowtide.operators.registry import OPERATORS, operator_type
from rowtide.plan.nodes import Merge, Sort
from rowtide.rows.rowop import TimedRow
from rowtide.rowtime.bound import LATEST, NO_BOUND, Bound
from rowtide.runners.spark.frames import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = sorted(OPERATORS, key=lambda kind: kind.__name__)
IN_TASKS = [kind for kind in KINDS if kind is not Merge]
DRAWN, CHOSEN = (24, 8) if settings.get_current_profile_name() == "long" else (12, 4)
"""So many cases are drawn of each operator; those with the most rows are run, half of them split by a key."""
MERGES = 2
"""The driver decides what leaves a merge: each case costs jobs of its own."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A case, and how its input is cut: ``first`` is processed by Spark, ``rest`` after it."""

    case: Case
    first: tuple[Step, ...]
    rest: tuple[Step, ...]

    def items(self, port: int) -> list[TimedRow | Bound]:
        """Return rows and bounds of a port, in its order, that Spark processes."""
        mine = [step for step in self.first if step.port == port]
        found: list[TimedRow | Bound] = []
        for step in mine:
            found += [*step.rows, *([] if step.bound == NO_BOUND else [step.bound])]
        return found

    def work(self) -> CaseWork:
        """Return what Spark does of it."""
        ports = range(len(self.case.ports))
        definition = definition_of(self.case.node, self.case.place, len(ports))
        if isinstance(self.case.node, Sort):
            return CaseWork(definition, (), (), self.items(0))
        rows = [[each for each in self.items(port) if isinstance(each, TimedRow)] for port in ports]
        bounds = [[each for each in self.items(port) if isinstance(each, Bound)] for port in ports]
        return CaseWork(definition, rows, [held[-1] if held else NO_BOUND for held in bounds])

    def model(self) -> Model:
        """Return the model when it has processed the same."""
        model = model_of(self.case.node, self.case.place)
        for step in self.first:
            follow(model, step)
        return model


@cache
def drawn(kind: type) -> list[Cut]:
    """Draw cases, the same in every run."""
    found: list[Cut] = []

    @given(data=st.data())
    @settings(max_examples=DRAWN, phases=[Phase.generate], database=None, derandomize=True)
    def draw(data: st.DataObject) -> None:
        case = data.draw(CASES[kind])
        is_logged = isinstance(case.node, Sort)
        steps = data.draw(steps_of(case.ports, drop_bounds=not is_logged, keep_up=not is_logged))
        # All of it for Spark, or a part that is not small.
        cut = data.draw(st.integers(len(steps) // 2, len(steps)))
        if any(step.rows for step in steps[:cut]):
            found.append(Cut(case, tuple(steps[:cut]), tuple(steps[cut:])))

    draw()
    found.sort(key=lambda cut: -sum(len(step.rows) for step in cut.first))
    split = [cut for cut in found if has_key(cut)]
    others = [cut for cut in found if not has_key(cut)]
    return [*split[: CHOSEN // 2], *others, *split[CHOSEN // 2 :]][:CHOSEN]


def has_key(cut: Cut) -> bool:
    """Return whether the rows of a case are split by the values of a key."""
    return any(cut.case.node.partition_key() or ())


@pytest.fixture(scope="module")
def came(spark: SparkSession) -> dict[type, list[Given]]:
    """What all cases of all operators gave."""
    given_ = iter(run(spark, [cut.work() for kind in IN_TASKS for cut in drawn(kind)]))
    return {kind: [next(given_) for _ in drawn(kind)] for kind in IN_TASKS}


def shown_without_place(rows: Sequence[TimedRow], cut: Cut) -> list[str]:
    """Return rows without origin and counter: operators that make rows number them in each task.

    Of changes, what each place comes to: a run passes on no more (docs/decisions/0028).
    """
    if not cut.case.node.shows_opcodes():
        return sorted(repr(bits((row.rowtime, int(row.opcode), row.row))) for row in rows)
    counts: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        counts[row.rowtime, row.origin, row.counter, repr(bits(row.row))] += int(row.opcode)
    return sorted(f"{rowtime} {count} {row}" for (rowtime, *_, row), count in counts.items() if count)


def shown_without_number(faults: Sequence[FaultSeen], cut: Cut) -> list[str]:
    """Return faults without the counter of those that are of no row of a source: each task numbers its own."""
    own = cut.case.place.origin
    return sorted(repr((*each[:4], None, *each[5:]) if each[3] == own else each) for each in faults)


def settled(state: State, cut: Cut) -> Run:
    """Let one operator take over the state: what tasks held back because of keys they did not know leaves."""
    after = Run(cut.case)
    after.operator.restore(state)
    if not isinstance(cut.case.node, Sort):
        for port, bound in enumerate(cut.work().bounds):
            after.step(Step(port, (), bound))
    return after


def check_handed_over(after: Run, cut: Cut, model: Model) -> None:
    """Let it process the rest, as the model does."""
    given_ = len(after.out)
    assert after.operator.held() == model.held()
    assert after.operator.account == model.account
    before, told_before = len(model.out), len(model.faults)
    end = [Step(port, (), Bound(LATEST)) for port in range(len(cut.case.ports))]
    for step in [*cut.rest, *end]:
        after.step(step)
        follow(model, step)
    assert by_place(after.out[given_:]) == by_place(model.out[before:])
    assert after.faults == model.faults[told_before:]
    assert after.operator.account == model.account


def test_every_registered_operator_runs_on_spark(came: dict[type, list[Given]]) -> None:
    ran = {kind for kind, cases in came.items() if any(case.reports for case in cases)}
    assert ran | {Merge} == set(OPERATORS)
    assert len(drawn(Merge)) >= MERGES


@pytest.mark.parametrize("kind", IN_TASKS, ids=[kind.__name__ for kind in IN_TASKS])
def test_an_operator_does_in_tasks_what_its_model_does(came: dict[type, list[Given]], kind: type) -> None:
    for cut, given_ in zip(drawn(kind), came[kind], strict=True):
        definition, model = cut.work().definition, cut.model()
        at = definition.program().outputs[OUT]
        after = settled(operator_type(kind).merge([report.states[at] for report in given_.reports]), cut)
        assert shown_without_place([*given_.rows, *after.out], cut) == shown_without_place(model.out, cut)
        faults = [fault_seen(fault) for fault in given_.faults]
        assert shown_without_number(faults, cut) == shown_without_number(model.faults, cut)
        check_handed_over(after, cut, model)


def test_several_tasks_share_the_rows_of_most_operators(came: dict[type, list[Given]]) -> None:
    def tasks(cut: Cut, given_: Given) -> int:
        at = cut.work().definition.program().outputs[OUT]
        accounts = [Account.from_arrow(report.states[at]["account"]) for report in given_.reports]
        return sum(account.rows_in > 0 for account in accounts)

    def can_be_split(cut: Cut) -> bool:
        return cut.case.node.is_row_wise or has_key(cut)

    split = [kind for kind in IN_TASKS if any(map(can_be_split, drawn(kind)))]
    shared = [kind for kind in split if max(map(tasks, drawn(kind), came[kind])) > 1]
    # The few rows of a case may all have one key.
    assert len(shared) > 2 * len(split) / 3


@pytest.mark.parametrize("number", range(MERGES))
def test_a_merge_lets_out_and_keeps_what_its_model_does(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    cut = drawn(Merge)[number]
    ports = range(len(cut.case.ports))
    definition, model = cut.work().definition, cut.model()
    spark_run = SparkRun(spark, definition, str(tmp_path), LoggedIntake(cut.case.node.row_type), few=0)
    spark_run.read({"S": messages(spark, [cut.items(port) for port in ports])})
    assert shown(list(spark_run.rows(OUT).rows())) == shown(model.out)
    program = definition.program()
    state = spark_run.flow().snapshot()[program.steps[program.outputs[OUT]].key]
    after = Run(cut.case)
    after.operator.restore(state)
    check_handed_over(after, cut, model)
