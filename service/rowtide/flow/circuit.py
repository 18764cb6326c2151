"""A circuit: some steps of a program, wired. Trays and bounds enter at ports and run until they leave.

The live flow is a circuit of all steps. Spark runs circuits of some steps, and
passes the output of one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from rowtide.flow.gates import Gates
from rowtide.flow.program import Port, Program
from rowtide.operators.contract import Fault, Gathering, Operator, StepOutput
from rowtide.operators.net_changes import net_changes, shares_places
from rowtide.operators.registry import make
from rowtide.plan.nodes import GroupChanges
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import NO_BOUND, Bound

Arrival = tuple[int, Tray | None, Bound]
"""The input of a step: the port, rows, and the bound that follows them."""


@dataclass(slots=True)
class Passed:
    """The output of one push, in order.

    ``given`` are the output trays of each step that has any, ``leaving`` those for ports outside.
    """

    given: dict[int, list[Tray]] = field(default_factory=dict)
    leaving: list[tuple[Port, Tray | None, Bound]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class Circuit:
    """The operators of the steps at ``positions`` of a program (default: all).

    ``operators`` has None for sources, where rows enter. ``bounds`` has the last bound of each step.
    ``gates`` stop resubmitted rows from repeating steps. ``watch`` receives the output of each step.
    """

    def __init__(
        self, program: Program, positions: Collection[int] | None = None, gates: Gates | None = None
    ) -> None:
        self.program = program
        self._gates = gates
        self._positions = sorted(range(len(program.steps)) if positions is None else positions)
        self._inside = frozenset(self._positions)
        self.operators: dict[int, Operator | None] = {
            at: None if program.steps[at].is_source else make(program.steps[at].node, program.steps[at].place)
            for at in self._positions
        }
        self.bounds: dict[int, Bound] = dict.fromkeys(self._positions, NO_BOUND)
        self.watch: Callable[[int, Tray], None] | None = None
        self._gathering = frozenset(
            at for at, operator in self.operators.items() if isinstance(operator, Gathering)
        )
        nodes = {at: program.steps[at].node for at in self._positions}
        # Streams of a model may have any opcodes, which are not changes of a table.
        self._of_changes = frozenset(at for at, node in nodes.items() if node.shows_opcodes())
        # What these give for one row is a net change already.
        self._by_row = frozenset(at for at, node in nodes.items() if isinstance(node, GroupChanges))

    def push(self, arrivals: Mapping[int, Sequence[Arrival]]) -> Passed:
        """Process the input of steps, in the order of the program."""
        passed = Passed()
        inboxes: dict[int, list[Arrival]] = {at: list(arrived) for at, arrived in arrivals.items()}
        for at in self._positions:
            arrived = inboxes.pop(at, None)
            if not arrived:
                continue
            for output in self._work(at, arrived):
                self.bounds[at] = output.bound
                if at not in self.program.repeated:
                    passed.faults += output.faults
                if output.tray is not None:
                    passed.given.setdefault(at, []).append(output.tray)
                    if self.watch is not None:
                        self.watch(at, output.tray)
                for target in self.program.steps[at].targets:
                    position, port = target
                    tray = output.tray if not self._gates else self._gates.through(at, target, output.tray)
                    if position in self._inside:
                        inboxes.setdefault(position, []).append((port, tray, output.bound))
                    else:
                        passed.leaving.append((target, tray, output.bound))
        return passed

    def renew(self, at: int) -> Operator:
        """Replace the operator of a step by a new one, and return that."""
        step = self.program.steps[at]
        operator = self.operators[at] = make(step.node, step.place)
        return operator

    def _work(self, at: int, arrived: Sequence[Arrival]) -> list[StepOutput]:
        operator = self.operators[at]
        if operator is None:
            return [StepOutput(tray, bound) for _, tray, bound in arrived]
        if at in self._gathering:
            gathering = cast("Gathering", operator)
            for port, tray, bound in arrived:
                gathering.offer(port, tray, bound)
            return [self._net(at, gathering.release())]
        outputs = []
        for port, tray, bound in arrived:
            output = operator.step(port, tray, bound)
            is_net = at in self._by_row and not shares_places(tray)
            outputs.append(output if is_net else self._net(at, output))
        return outputs

    def _net(self, at: int, output: StepOutput) -> StepOutput:
        """Return the output of a step with the net changes of each place."""
        if output.tray is None or at not in self._of_changes:
            return output
        tray = net_changes(output.tray)
        return output if tray is output.tray else replace(output, tray=tray)
