"""A circuit: some steps of a program, wired. Trays and bounds enter at ports and run until they leave.

The live flow is a circuit of all steps. Spark runs circuits of some steps, and
passes the output of one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from rowtide.flow.gates import Gates
from rowtide.flow.program import Port, Program
from rowtide.operators.contract import Fault, Gathering, Operator, StepOutput
from rowtide.operators.net_changes import net_changes, shares_places
from rowtide.operators.registry import make
from rowtide.plan.nodes import GroupChanges
from rowtide.plan.nodes.changes.window_changes import WindowChanges
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, NO_BOUND, Bound

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
        self._collected: dict[int, list[Arrival]] = {}
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
            if at in self._collected:
                self._collected[at] += arrived
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

    def collect(self) -> None:
        """Let windows over tables collect what comes to them, until ``settle``; there is no snapshot until then.

        So they compute the results of the rows that a query begins with once, and not after each row. Windows whose
        results meet a ROWTIME, or a step that keeps more than contents, process each row.
        """
        unaware: set[int] = set()
        for at in reversed(self._positions):
            step = self.program.steps[at]
            if step.node.follows_contents() and all(target in unaware for target, _ in step.targets):
                unaware.add(at)
        windows = (at for at in sorted(unaware) if isinstance(self.program.steps[at].node, WindowChanges))
        self._collected = {at: [] for at in windows}

    def settle(self) -> Iterator[Passed]:
        """Let each step have what it has collected, as one change; those behind it collect what it gives."""
        limit = self._passed_by_all()
        for at in list(self._collected):
            arrived = self._collected.pop(at)
            if arrived:
                yield self.push({at: [_one_change(arrived, limit)]})

    def _passed_by_all(self) -> int:
        """Return the rowtime (ms) below which results of windows wait for no other rows where they meet them.

        Later rows are changes of their own, so that those before them need not wait with them.
        """
        behind = set(self._collected)
        meets = False
        bounds = [arrived[-1][2].rowtime for arrived in self._collected.values() if arrived]
        for at in self._positions:
            targets = [position for position, _ in self.program.steps[at].targets]
            if at in behind:
                behind.update(targets)
                meets = meets or any(position in self.program.meetings for position in targets)
            elif any(position in self.program.meetings for position in targets):
                bounds.append(self.bounds[at].rowtime)
        return min(bounds) if meets else LATEST

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


def _one_change(arrived: Sequence[Arrival], limit: int) -> Arrival:
    """Return what arrived at the one port of a step, with the rows before ``limit`` (ms) at the place of their last."""
    trays = [tray for _, tray, _ in arrived if tray is not None and len(tray)]
    port, _, bound = arrived[-1]
    if not trays:
        return port, None, bound
    tray = Tray.concat(trays)
    count = int(np.searchsorted(tray.rowtime, limit))
    if count:
        rowtime, origin, counter = tray.rowtime.copy(), tray.origin.copy(), tray.counter.copy()
        rowtime[:count], origin[:count], counter[:count] = (
            rowtime[count - 1],
            origin[count - 1],
            counter[count - 1],
        )
        tray = replace(tray, rowtime=rowtime, origin=origin, counter=counter)
    return port, tray, bound
