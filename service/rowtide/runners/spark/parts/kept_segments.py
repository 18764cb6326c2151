"""The segments of a run whose tasks keep their state in parts: the driver has names, sizes and bounds of it.

The driver of such a segment does not process its final bounds after the tasks, as it does with states that it has:
each task has passed them through its part already. The bound of a step is the least one of its parts. That is right
only where a part lets go what the whole would let go, so ``Node.parts_hold_back`` leaves the others out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rowtide.checkpoint.parts.kept import whole
from rowtide.flow.circuit import Circuit
from rowtide.flow.program import Port, Program
from rowtide.flow.segments import Segment
from rowtide.operators.contract import State
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.registry import make
from rowtide.plan.nodes import Source, TableSource
from rowtide.rowtime.bound import UNMARKED, Bound
from rowtide.runners.spark.parts.elsewhere import StateElsewhere
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.shuffle.exchange import Spread
from rowtide.runners.spark.shuffle.runs import Piece, Split
from rowtide.runners.spark.spreading import Spreading
from rowtide.runners.spark.stage import TaskReport
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

    def are_settled(self, number: int, circuit: Circuit) -> bool:
        """Return whether the bounds of a segment's steps are final: tasks have passed them, or nothing has changed."""
        return any(isinstance(circuit.operators[at], StateElsewhere) for at in self.steps(number))

    def leaving(self, number: int, circuit: Circuit) -> dict[Port, Bound]:
        """Return the bounds that the ports after a segment have from it."""
        return {port: circuit.bounds[at] for at, port in self._segments[number].exits}

    def gathered(self, circuits: Iterable[Circuit]) -> list[tuple[int, State]]:
        """Return the states of all steps that are kept in parts, each as one operator has it."""
        return [
            (at, whole(operator.parts, self.keeper.store))
            for circuit in circuits
            for at, operator in circuit.operators.items()
            if self.keeper is not None and isinstance(operator, StateElsewhere)
        ]

    def _least(self, at: int, bounds: Iterable[Bound]) -> Bound:
        ranks = Ranks(self._program.steps[at].origins).of_origin

        def place(bound: Bound) -> tuple[int, int, int]:
            return bound.rowtime, ranks.get(bound.origin, UNMARKED), bound.counter

        return min(bounds, key=place)


def kept_steps(program: Program, segment: Segment) -> frozenset[int]:
    """Return the steps of a segment whose state its tasks can keep.

    Row-wise steps have hardly any. Rows that wait in a merge, and those of sources, go to the driver.
    """
    nodes = {at: program.steps[at].node for at in segment.steps}
    is_source = any(isinstance(nodes[at], Source | TableSource) for at in segment.entries)
    if is_source or segment.is_row_wise or any(node.parts_hold_back() for node in nodes.values()):
        return frozenset()
    merge = segment.entries[:1] if segment.is_merge(program) else ()
    return frozenset(at for at, node in nodes.items() if not node.is_row_wise and at not in merge)
