"""The segments of a run whose tasks keep their state in parts: the driver has names, sizes and bounds of it.

The driver of such a segment does not process its final bounds after the tasks, as it does with states that it has:
each task has passed them through its part already. The bound of a step is the least one of its parts. That is right
only where a part lets go what the whole would let go, so ``Node.parts_hold_back`` leaves the others out.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence

from rowtide.checkpoint.parts.kept import all_of
from rowtide.checkpoint.snapshot import PARTS
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.program import Port, Program
from rowtide.flow.segments import Segment
from rowtide.operators.contract import State
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.registry import make
from rowtide.rowtime.bound import UNMARKED, Bound
from rowtide.runners.spark.parts.elsewhere import StateElsewhere
from rowtide.runners.spark.parts.keeping import Begins, PartKeeper
from rowtide.runners.spark.parts.queues import QueueTasks
from rowtide.runners.spark.shuffle.exchange import Spread
from rowtide.runners.spark.shuffle.given import Layout
from rowtide.runners.spark.shuffle.runs import Piece, Split
from rowtide.runners.spark.spreading import Spreading
from rowtide.runners.spark.stage import TaskReport, steps_behind
from rowtide.runners.spark.start import Start


class KeptSegments:
    """The segments of one run that are kept in parts; none without a ``keeper``."""

    def __init__(
        self,
        program: Program,
        segments: Sequence[Segment],
        keeper: PartKeeper | None,
        start: Start,
        spreading: Spreading,
    ) -> None:
        self.keeper = keeper
        self._program = program
        self._segments = segments
        self._start = start
        self._spreading = spreading
        self._steps = {
            number: found
            for number, segment in enumerate(segments)
            if keeper is not None and (found := kept_steps(program, segment))
        }

    def steps(self, number: int) -> frozenset[int]:
        """Return the steps of a segment whose state its tasks keep; none: its state goes to the driver."""
        return self._steps.get(number, frozenset())

    def spread(self, number: int, pieces: Sequence[Piece], split: Split) -> Spread:
        """Return how the input of such a segment is spread: as its state is, however few the rows are."""
        return self._spreading.of_parts(self._segments[number], pieces, split)

    def must_run(self, number: int, bounds: Mapping[int, Bound], feeders: Mapping[int, int]) -> bool:
        """Return whether tasks must process a segment that gets no rows: it has parts, and bounds that moved.

        ``bounds`` are the final ones of its ports, ``feeders`` the step that feeds each.
        """
        if not any(self._start.parts_of(at) for at in self.steps(number)):
            return False
        return any(bounds[port] != self._start.bound(at) for port, at in feeders.items())

    def settle(self, number: int, circuit: Circuit, reports: Sequence[TaskReport]) -> None:
        """Put into the circuit of a segment what its tasks report of kept state, and the bounds that they reached."""
        for at in self.steps(number):
            kept = [report.kept[at] for report in reports if at in report.kept]
            if kept:
                step = self._program.steps[at]
                circuit.operators[at] = StateElsewhere.of(
                    step.node,
                    make(step.node, step.place),
                    [each.part for each in kept],
                    [each.account for each in kept],
                )
        for at in self._segments[number].steps:
            if reached := [report.bounds[at] for report in reports if at in report.bounds]:
                circuit.bounds[at] = self._least(at, reached)

    def is_elsewhere(self, number: int, circuit: Circuit, at: int) -> bool:
        """Return whether state of a step, or of steps behind it in the segment, is in parts: tasks pass its bounds."""
        return any(isinstance(circuit.operators[each], StateElsewhere) for each in self._behind(number, at))

    def leaving(self, number: int, circuit: Circuit, at: int) -> dict[Port, Bound]:
        """Return the bounds that the ports after a segment have from the steps behind a step of it."""
        behind = self._behind(number, at)
        return {port: circuit.bounds[each] for each, port in self._segments[number].exits if each in behind}

    def taken(
        self, number: int, circuit: Circuit, arrivals: Mapping[int, Sequence[Arrival]], tasks: int
    ) -> list[bytes]:
        """Return what some tasks get to let bounds come to the steps whose state is elsewhere; see ``SilentTasks``."""
        found: list[list[tuple[Begins, Mapping[int, Sequence[Arrival]]]]] = [[] for _ in range(tasks)]
        elsewhere = [each for each in arrivals.items() if self.is_elsewhere(number, circuit, each[0])]
        for turn, (at, arrived) in enumerate(elsewhere):
            states = {
                each: operator.parts if isinstance(operator, StateElsewhere) else operator.snapshot()
                for each in sorted(self._behind(number, at))
                if (operator := circuit.operators[each]) is not None
            }
            found[turn % tasks].append((Begins(0, 1, states), {at: arrived}))
        return [pickle.dumps(each) for each in found if each]

    def _behind(self, number: int, at: int) -> set[int]:
        return steps_behind(self._program, at, frozenset(self._segments[number].steps))

    def queues(self, ports: Sequence[Port], tasks: int) -> list[bytes]:
        """Return what some tasks get to read the rows that wait at ports; see ``QueueTasks``."""
        parts = [(at, part) for at, port in enumerate(ports) for part in self._start.kept_waiting[port]]
        return [pickle.dumps(parts[task::tasks]) for task in range(min(tasks, len(parts)))]

    def queue_tasks(self, ports: Sequence[Port], layout: Layout) -> QueueTasks:
        """Return the tasks that read the rows that wait at ports."""
        assert self.keeper is not None
        queues = [(port, self._program.steps[at].node.row_type) for at, port in ports]
        return QueueTasks(queues, layout, self.keeper.store)

    def elsewhere(self, circuits: Iterable[Circuit]) -> dict[int, State]:
        """Return the states of all steps of circuits that are kept in parts, by step: the names of the parts."""
        return {
            at: operator.snapshot()
            for circuit in circuits
            for at, operator in circuit.operators.items()
            if isinstance(operator, StateElsewhere)
        }

    def all_of(self, state: State) -> State:
        """Return the state of a step as one operator has it."""
        if self.keeper is None or PARTS not in state:
            return state
        return all_of(state, self.keeper.store)

    def _least(self, at: int, bounds: Iterable[Bound]) -> Bound:
        ranks = Ranks(self._program.steps[at].origins).of_origin

        def place(bound: Bound) -> tuple[int, int, int]:
            return bound.rowtime, ranks.get(bound.origin, UNMARKED), bound.counter

        return min(bounds, key=place)


def kept_steps(program: Program, segment: Segment) -> frozenset[int]:
    """Return the steps of a segment whose state its tasks can keep.

    Row-wise steps have hardly any, and sources none. The rows that wait in a merge are kept apart.
    """
    nodes = {at: program.steps[at].node for at in segment.steps}
    if segment.is_row_wise or any(node.parts_hold_back() for node in nodes.values()):
        return frozenset()
    without = (
        segment.entries if segment.is_merge(program) or program.steps[segment.entries[0]].is_source else ()
    )
    return frozenset(at for at, node in nodes.items() if not node.is_row_wise and at not in without)
