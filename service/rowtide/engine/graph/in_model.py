"""A graph as a model of a pipeline: rows arrive in the order of the pipeline, time comes from its bounds.

A row goes through the whole graph, its loops included, before the next one. So
the results, looping rows and timers included, depend only on the order of the rows
and their rowtimes, and no decisions need to be logged (docs/decisions/0005).
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
    """Run a graph as a model: its sources are the inputs of the model, its nodes the outputs.

    Nodes receive and send rows as tuples. The rows of all inputs arrive in one order: at one rowtime, the
    order in which the pipeline merges them.

    Args:
      setup: the setup of the model.
      graph: the graph; rows of looping links that are not CONSISTENT come back at once.
      inputs: the row type of each source.
      outputs: the row type of the rows that each of these nodes sends.

    Raises:
      ModelError: if the graph has other sources.
    """
    if set(inputs) != set(graph.sources):
        raise ModelError(f"the graph's sources are {', '.join(graph.sources)}: each needs a row type")
    _Embedded(setup, graph, inputs, outputs)


class _Embedded:
    """The run of the graph as a part of the model: it runs when a row arrives and when an event is due."""

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
        """Return the state of the graph as plain values."""
        return self._awake_at, self._run.snapshot()

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned."""
        self._awake_at, run = state
        self._run.restore(run)

    def _taking(self, source: str) -> Callable[[Rowop], None]:
        def take(rowop: Rowop) -> None:
            if rowop.opcode is Opcode.INSERT:
                self._run.insert(source, self._clock.rowtime, tuple(rowop.row))
                self._work()

        return take

    def _dropped(self, rowtime: int) -> None:
        """Continue without the events due up to a rowtime: they failed, and would fail again."""
        self._run.drop_due(rowtime)
        self._work()

    def _jump(self, before: int, after: int) -> None:
        self._run.skip(before, after)
        self._work()

    def _time(self, _rowop: Rowop) -> None:
        self._run.bound(self._sources[0], self._clock.rowtime)
        self._work()

    def _work(self) -> None:
        """Run the graph, send its results, and schedule the next run."""
        self._run.drain()
        sent = [
            (given.stamp, label, given.row)
            for name, label in self._outputs.items()
            for given in self._run.taken(name)
        ]
        # The results of one row come before those of the next row, at any output.
        for _, label, row in sorted(sent, key=lambda each: each[0]):
            label.send(Opcode.INSERT, label.row_type.adopt(row))
        now, due = self._clock.rowtime, self._run.next_rowtime()
        asleep = self._awake_at is None or self._awake_at <= now
        if due is not None and (asleep or due < (self._awake_at or 0)):
            self._awake_at = max(due, now)
            self._clock.at(self._awake_at, self._tick.rowop(Opcode.INSERT, _NOTHING.row()))
