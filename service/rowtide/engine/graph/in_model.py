"""A graph as a model of a pipeline: rows come in the pipeline's order, time comes from its bounds.

A row goes through the whole graph, its loops included, before the next one. So
what comes out, looping rows and timers included, follows from the order of the
rows and their rowtimes, and nothing is left to be logged (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rowtide.engine.errors import ModelError
from rowtide.engine.graph.graph import Graph
from rowtide.engine.graph.run import GraphRun
from rowtide.engine.model import ModelSetup
from rowtide.engine.row_type import RowType
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import Rowop
from rowtide.rows.rowop import Opcode

_NOTHING = RowType()


def run_in_model(
    setup: ModelSetup, graph: Graph, inputs: Mapping[str, RowType], outputs: Mapping[str, RowType]
) -> None:
    """Make a graph what a model does: its sources are the model's inputs, its nodes the outputs.

    Nodes get rows as tuples and send tuples. The rows of all inputs come in one order: at one rowtime that
    in which the pipeline merges them.

    Args:
      setup: of the model.
      graph: its looping links that are not CONSISTENT come back at once.
      inputs: the row type of each source.
      outputs: the row type of what each of these nodes sends.

    Raises:
      ModelError: the graph has other sources.
    """
    if set(inputs) != set(graph.sources):
        raise ModelError(f"the graph's sources are {', '.join(graph.sources)}: each needs a row type")
    _Embedded(setup, graph, inputs, outputs)


class _Embedded:
    """The graph's run as a part of the model: it works when a row comes, and when it is time."""

    def __init__(
        self,
        setup: ModelSetup,
        graph: Graph,
        inputs: Mapping[str, RowType],
        outputs: Mapping[str, RowType],
    ) -> None:
        self._clock = setup.clock
        self._run = GraphRun(graph, outputs, in_one_order=True)
        self._sources = list(inputs)
        self._outputs: dict[str, Label] = {}
        self._awake_at: int | None = None
        self._tick = setup.unit.label("tick of the graph", _NOTHING, self._time)
        setup.clock.when_dropped(self._tick, self._dropped)
        setup.clock.also_known(self._run.last_rowtime)
        for name, row_type in inputs.items():
            setup.input(name, setup.unit.label(f"{name} of the graph", row_type, self._taking(name)))
        for name, row_type in outputs.items():
            self._outputs[name] = setup.unit.label(f"{name} from the graph", row_type)
            setup.output(name, self._outputs[name])
        setup.unit.keep("graph", self)
        if self._run.wants_resets:
            setup.on_jump(self._jump)

    def snapshot(self) -> Any:
        """Give what the graph remembers, as plain values."""
        return self._awake_at, self._run.snapshot()

    def restore(self, state: Any) -> None:
        """Take over what ``snapshot`` gave."""
        self._awake_at, run = state
        self._run.restore(run)

    def _taking(self, source: str) -> Callable[[Rowop], None]:
        def take(rowop: Rowop) -> None:
            if rowop.opcode is Opcode.INSERT:
                self._run.insert(source, self._clock.rowtime, tuple(rowop.row))
                self._work()

        return take

    def _dropped(self, rowtime: int) -> None:
        """Go on without what was due up to a rowtime: it failed, and would fail again."""
        self._run.drop_due(rowtime)
        self._work()

    def _jump(self, before: int, after: int) -> None:
        self._run.skip(before, after)
        self._work()

    def _time(self, _rowop: Rowop) -> None:
        self._run.bound(self._sources[0], self._clock.rowtime)
        self._work()

    def _work(self) -> None:
        """Let the graph go on, give what came out, and ask to be called when more can come."""
        self._run.drain()
        sent = [
            (given.stamp, label, given.row)
            for name, label in self._outputs.items()
            for given in self._run.taken(name)
        ]
        # What one row made comes out before what the next one made, of whatever output.
        for _, label, row in sorted(sent, key=lambda each: each[0]):
            label.send(Opcode.INSERT, label.row_type.adopt(row))
        now, due = self._clock.rowtime, self._run.next_rowtime()
        asleep = self._awake_at is None or self._awake_at <= now
        if due is not None and (asleep or due < (self._awake_at or 0)):
            self._awake_at = max(due, now)
            self._clock.at(self._awake_at, self._tick.rowop(Opcode.INSERT, _NOTHING.row()))
