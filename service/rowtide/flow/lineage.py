"""The input rows of a row: what to search for at the inputs of each operator (law 7).

Rows carry no lineage. A row that an operator only passes on keeps its place in
consistent time (origin and counter), so it is followed by that. If an operator
made a row, its values identify its inputs: the window and key of a group, the
two halves of a pair. ``Lineage`` turns these into searches. The caller replays
the input and applies the searches to the output of every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rowtide.flow.program import Program
from rowtide.plan.nodes.lineage import SourceRows, identity, same_row
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray

MAX_ROWS = 100
"""Maximum number of rows of one search that are kept and followed. The count includes all."""


@dataclass(slots=True)
class Search:
    """Searches the output of step ``at`` for ``wanted`` rows, which ``step`` reads.

    ``rows`` are at most ``MAX_ROWS``, ``matched`` counts all.
    """

    at: int
    step: int
    wanted: SourceRows
    matched: int = 0
    rows: deque[TimedRow] = field(default_factory=deque)
    _at_end: bool = False
    _passed: bool = False
    _after: int = field(init=False)
    """Number of wanted matches after the end."""

    def __post_init__(self) -> None:
        self._after = self.wanted.after

    @property
    def count(self) -> int:
        """Number of wanted rows among those that match."""
        return self.matched if self.wanted.last is None else len(self.rows)

    def see(self, tray: Tray) -> None:
        """Search rows that the step has emitted."""
        if self._passed and not self._after:
            return
        wanted = self.wanted
        inside = np.flatnonzero((tray.rowtime >= wanted.begin) & (tray.rowtime <= wanted.end))
        if not len(inside):
            return
        for row in (tray if len(inside) == len(tray) else tray.take(inside)).rows():
            here = wanted.until == identity(row)
            self._passed = self._passed or (self._at_end and not here)
            self._at_end = self._at_end or here
            if self._passed and not self._after:
                return
            if wanted.matches(row):
                self._after -= self._passed
                self._add(row)

    def _add(self, row: TimedRow) -> None:
        self.matched += 1
        self.rows.append(row)
        last = self.wanted.last
        if self.wanted.first:
            self._passed = True
        elif last is not None and not self._passed:
            if len(self.rows) > last:
                self.rows.popleft()
        elif len(self.rows) > max(MAX_ROWS, last or 0):
            self.rows.pop()


@dataclass(frozen=True, slots=True)
class Back:
    """The path on which a row can be followed by its place: through ``path``, up to ``step``.

    ``port`` has, for each step of the path with several inputs, the port at which the row arrived.
    """

    path: tuple[int, ...]
    step: int
    ports: dict[int, int]


class Lineage:
    """Follows rows back through a program."""

    def __init__(self, program: Program) -> None:
        self._steps = program.steps
        self.feeders: dict[int, dict[int, int]] = {}
        for at, step in enumerate(program.steps):
            for target, port in step.targets:
                self.feeders.setdefault(target, {})[port] = at

    def back(self, at: int, row: TimedRow) -> list[Back]:
        """Follow an output row of step ``at`` to where it entered, or was made of several rows.

        If branches of one stream meet, it may have come by each of them.
        """
        return list(self._back((at,), {}, row))

    def _back(self, path: tuple[int, ...], ports: dict[int, int], row: TimedRow) -> Iterator[Back]:
        at = path[-1]
        step = self._steps[at]
        if not step.node.passes_on(row, step.place.origin):
            yield Back(path, at, ports)
            return
        for port, feeder in sorted(self.feeders[at].items()):
            if row.origin in self._steps[feeder].origins:
                yield from self._back((*path, feeder), ports | {at: port}, row)

    def locate(self, at: int, row: TimedRow) -> Search:
        """Search for a row in the output of step ``at``."""
        opcode = row.opcode
        return Search(at, at, same_row(row, lambda each: each.opcode == opcode))

    def searches(self, at: int, row: TimedRow) -> list[Search]:
        """Search for the inputs from which step ``at`` made a row."""
        feeders = self.feeders[at]
        return [Search(feeders[wanted.port], at, wanted) for wanted in self._steps[at].node.made_of(row)]
