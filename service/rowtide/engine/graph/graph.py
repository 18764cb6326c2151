"""The shape of a graph: sources, nodes, looping links, and schedulers that are driven by a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from rowtide.engine.errors import ModelError
from rowtide.engine.graph.node import Processor


class Use(Enum):
    """How a looping link stamps a row of rowtime T that comes back, with the delay L of the link."""

    CONSISTENT = "CONSISTENT"
    """Always T + L: every run has the same result."""
    LIMITED = "LIMITED"
    """Just before the next row that waits at the target, but at T + L at the latest; logged."""
    RECORDED = "RECORDED"
    """Just before the next row at the target, which never waits for the link; logged."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node: the processor to run, and its inputs in order of priority, the highest first."""

    name: str
    make: Callable[[], Processor]
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopShape:
    """A looping link; if ``use`` is None, a scheduler that ``of`` drives, with events for ``to``."""

    name: str
    of: str
    to: str
    delay_ms: int
    use: Use | None


class Graph:
    """Declares a graph; ``GraphRun`` runs it.

    An input is declared before the nodes that read it, so the graph without looping links has no cycle.
    """

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.nodes: list[NodeShape] = []
        self.loops: list[LoopShape] = []

    def source(self, name: str) -> str:
        """Declare an input from outside; at one rowtime, rows of the source declared first are first.

        Raises:
          ModelError: if the name is taken.
        """
        self._take(name)
        self.sources.append(name)
        return name

    def node(self, name: str, make: Callable[[], Processor], inputs: Sequence[str]) -> str:
        """Declare a node that reads ``inputs``; it handles rows of one stamp in the order of its inputs.

        Raises:
          ModelError: if the name is taken, or an input is not declared yet.
        """
        self._take(name)
        known = {*self.sources, *(node.name for node in self.nodes)}
        for each in inputs:
            if each not in known:
                raise ModelError(f'node "{name}" reads "{each}", which is not declared')
        if not inputs or len(set(inputs)) < len(inputs):
            raise ModelError(f'node "{name}" needs inputs, each of them once')
        self.nodes.append(NodeShape(name, make, tuple(inputs)))
        return name

    def loop(
        self, name: str, of: str, to: str, delay_ms: int | None = None, use: Use = Use.CONSISTENT
    ) -> str:
        """Declare a looping link: rows that ``of`` sends to ``name`` go to ``to``, before its other inputs.

        ``delay_ms`` is the delay L; a RECORDED link has none.

        Raises:
          ModelError: if a node does not exist, or the link needs a delay.
        """
        if use is Use.RECORDED:
            delay_ms = delay_ms or 0
        elif delay_ms is None or delay_ms <= 0:
            raise ModelError(
                f'looping link "{name}" needs a delay above 0 ms',
                hint="Without a delay, the target and the loop would wait for each other.",
            )
        return self._loop(LoopShape(name, of, to, delay_ms, use))

    def scheduler(self, name: str, driven_by: str, to: str, delay_ms: int) -> str:
        """Declare a scheduler that runs in the time of ``driven_by``, with events for ``to``.

        Its events are at least ``delay_ms`` later than the rows that schedule them.

        Raises:
          ModelError: if a node does not exist, or the delay is not above 0.
        """
        if delay_ms <= 0:
            raise ModelError(f'scheduler "{name}" needs a delay above 0 ms')
        return self._loop(LoopShape(name, driven_by, to, delay_ms, None))

    def _loop(self, shape: LoopShape) -> str:
        self._take(shape.name)
        known = {node.name for node in self.nodes}
        for each in (shape.of, shape.to):
            if each not in known:
                raise ModelError(f'looping link "{shape.name}" refers to "{each}", which is not a node')
        self.loops.append(shape)
        return shape.name

    def _take(self, name: str) -> None:
        taken = [*self.sources, *(node.name for node in self.nodes), *(loop.name for loop in self.loops)]
        if name in taken:
            raise ModelError(f'name "{name}" is taken')
