"""Runs an operator step by step, watches its promises, and compares it with its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from contract.operators.inputs import Case, Step, through_bytes, tray_of
from contract.operators.meanings import bits
from contract.operators.model import FaultSeen, Model
from contract.operators.models import origins_out
from rowtide.operators.contract import Fault, Operator, StepOutput
from rowtide.operators.registry import make
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import NO_BOUND, UNMARKED, Bound

Bits = tuple[object, ...]


class Run:
    """One operator at work; ``restart`` puts a fresh one in its place, from its snapshot.

    ``is_split``: it has a part of the state of another, and only the accounts of all parts together are right.
    """

    def __init__(self, case: Case, operator: Operator | None = None, *, is_split: bool = False) -> None:
        self.case = case
        self._is_split = is_split
        self.operator = operator or make(case.node, case.place)
        self.out: list[TimedRow] = []
        self.faults: list[FaultSeen] = []
        self.bound = NO_BOUND
        self._ranks = origins_out(case.node, case.place)

    def step(self, step: Step) -> None:
        """Let the operator take a step, and check what it owes whatever it computes."""
        tray = tray_of(self.case.row_types[step.port], step.rows)
        self.take(self.operator.step(step.port, tray, step.bound))

    def take(self, output: StepOutput) -> None:
        """Take what a step gave."""
        rows = [] if output.tray is None else list(output.tray.rows())
        if output.tray is not None:
            assert output.tray.row_type == self.case.node.row_type
        for row in rows:
            if self.case.ordered:
                assert self.place(row) > self.promise(self.bound), f"{row} breaks {self.bound}"
        assert self.promise(output.bound) >= self.promise(self.bound), "a bound went back"
        self.bound = output.bound
        self.out += rows
        self.faults += map(fault_seen, output.faults)
        if not self._is_split:
            self.operator.account.check("", self.operator.held())

    def place(self, row: TimedRow) -> tuple[int, int, int]:
        """Return a row's place in consistent time, after this operator."""
        return (row.rowtime, self._ranks.index(row.origin), row.counter)

    def promise(self, bound: Bound) -> tuple[float, float, float]:
        """Return a place before which nothing comes any more, itself included."""
        if bound.origin == UNMARKED:
            return (bound.rowtime, -1, -1)
        return (bound.rowtime, self._ranks.index(bound.origin), bound.counter)

    def copied(self) -> Run:
        """Return another one that goes on from here."""
        other = Run(self.case)
        other.operator.restore(through_bytes(self.operator.snapshot()))
        other.bound, other.out = self.bound, list(self.out)
        return other

    def restart(self) -> None:
        """Go on with a fresh operator that has read this one's snapshot."""
        state = through_bytes(self.operator.snapshot())
        self.operator = make(self.case.node, self.case.place)
        self.operator.restore(state)


def follow(model: Model, step: Step) -> None:
    """Let the model take the rows and the bound of a step, one by one."""
    for row in step.rows:
        model.row(step.port, row)
    model.bound(step.port, step.bound)


def fault_seen(fault: Fault) -> FaultSeen:
    """Return a fault without its words, which must not be empty, and the names of its row's fields."""
    assert fault.message
    assert fault.row is None or len(fault.names or ()) == len(fault.row)
    return (
        fault.relation,
        fault.reason,
        fault.rowtime,
        fault.origin,
        fault.counter,
        bits(fault.row),
        fault.bound,
    )


def shown(rows: Sequence[TimedRow]) -> list[object]:
    """Return rows so that they are equal only bit by bit."""
    return [bits((int(r.rowtime), int(r.origin), int(r.counter), int(r.opcode), r.row)) for r in rows]


def check_same(run: Run, model: Model) -> None:
    """Check that operator and model have given, promised, told and counted the same."""
    assert shown(run.out) == shown(model.out)
    assert run.faults == model.faults
    assert run.bound == model.promise()
    assert run.operator.held() == model.held()
    assert run.operator.account == model.account


def in_input_order(faults: Sequence[FaultSeen]) -> list[FaultSeen]:
    """Return faults by origin and counter of their rows: a commit tells them so.

    See docs/sql/semantics.md#error-rows.
    """
    return sorted(faults, key=lambda each: each[3:5])


def by_place(rows: Sequence[TimedRow]) -> list[tuple[tuple[int, int, int], Counter[object]]]:
    """Return rows with those of one place as a multiset: in which order they stand is left open."""
    found: list[tuple[tuple[int, int, int], Counter[object]]] = []
    for row in rows:
        place = (row.rowtime, row.origin, row.counter)
        if not found or found[-1][0] != place:
            found.append((place, Counter()))
        found[-1][1][bits((int(row.opcode), row.row))] += 1
    return found


def contents_of(tray: Tray) -> Counter[object]:
    """Return the rows of a tray as a multiset."""
    return Counter(bits(row.row) for row in tray.rows())
