"""The last rows that each relation of a flow has given, for people to look at.

Trays are kept as they are, so a tray costs one append: nothing is copied or converted until somebody asks. A tray
may keep much more in memory than the last rows that are wanted: it has many rows, is part of a larger one, or has
columns that are not computed yet. ``settle`` copies the last rows of relations with such trays. A pipeline calls it
where it commits, so that rows that nothing reads are computed once a commit at most.

Nothing here changes the flow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node
from rowtide.rows.deferred import DeferredColumn
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType

KEPT_ROWS = 100
"""The last rows of a relation that are always there: more than people read."""
LARGE_ROWS = 1_000
"""A tray that keeps more rows in memory than this is copied in part."""
MANY_TRAYS = 32
"""More trays than this are copied to one: small trays take some kilobytes each, however few rows they have."""


class LatestTrays:
    """The last trays of each relation of ``nodes``, and of each output, that runs. Owned by the flow's thread.

    Args:
      nodes: the relations and outputs by name.
      since_ms: when the flow began to give rows, in ms since 1970.
    """

    def __init__(self, nodes: Mapping[str, Node], since_ms: int) -> None:
        self.since_ms = since_ms
        self._nodes = dict(nodes)
        self._relations: dict[str, _RelationTrays] = {}
        self._of_step: dict[int, list[_RelationTrays]] = {}
        self._unsettled: dict[str, _RelationTrays] = {}

    def follow(self, flow: Flow) -> None:
        """Keep what ``flow`` gives from now on, after what an earlier flow of the same plan has given."""
        enquiry = flow.enquiry()
        self._of_step = {}
        for name, node in self._nodes.items():
            for at in enquiry.roots(name, node):
                row_type = flow.program.steps[at].node.row_type
                kept = self._relations.setdefault(name, _RelationTrays(name, row_type))
                self._of_step.setdefault(at, []).append(kept)
        flow.watch(self._take)

    def __contains__(self, relation: str) -> bool:
        """Return whether a relation runs: something that runs reads it, or it is an output."""
        return relation in self._relations

    def rows(self, relation: str, count: int) -> Tray:
        """Return the last ``count`` rows of a relation, at most ``KEPT_ROWS``, in the order in which it gave them.

        Rows of different partitions that are not merged yet are in the order in which they were processed.

        Raises:
          KeyError: the relation does not run.
        """
        return self._relations[relation].last(count)

    def total(self, relation: str) -> int:
        """Return how many rows a relation has given since the first flow.

        Raises:
          KeyError: the relation does not run.
        """
        return self._relations[relation].total

    def settle(self) -> None:
        """Keep no more in memory than the last rows. The flow must have been drained."""
        for kept in self._unsettled.values():
            kept.settle()
        self._unsettled.clear()

    def _take(self, at: int, tray: Tray) -> None:
        for kept in self._of_step.get(at, ()):
            if kept.add(tray):
                self._unsettled[kept.name] = kept


class _RelationTrays:
    """The last trays of one relation: at most ``KEPT_ROWS``, and without the first fewer rows than that."""

    def __init__(self, name: str, row_type: RowType) -> None:
        self.name = name
        self._row_type = row_type
        self.total = 0
        self._trays: deque[Tray] = deque()
        self._rows = 0

    def add(self, tray: Tray) -> bool:
        """Keep a tray; return whether ``settle`` would free memory."""
        count = len(tray)
        if not count:
            return False
        self.total += count
        self._rows += count
        self._trays.append(tray)
        while self._rows - len(self._trays[0]) >= KEPT_ROWS:
            self._rows -= len(self._trays.popleft())
        return len(self._trays) > MANY_TRAYS or _keeps_more(tray)

    def last(self, count: int) -> Tray:
        """Return the last rows, in memory of their own."""
        parts: list[Tray] = []
        left = min(count, KEPT_ROWS)
        for tray in reversed(self._trays):
            if not left:
                break
            parts.append(tray.slice(max(0, len(tray) - left), len(tray)))
            left -= len(parts[-1])
        if not parts:
            return Tray.empty(self._row_type)
        found = Tray.concat(parts[::-1])
        return found.take(np.arange(len(found), dtype=np.int64))

    def settle(self) -> None:
        """Keep the last rows in memory of their own."""
        found = self.last(KEPT_ROWS)
        self._trays = deque([found])
        self._rows = len(found)


def _keeps_more(tray: Tray) -> bool:
    """Return whether a tray keeps much more in memory than a few rows. Its rowtimes show of what it is a part."""
    base = tray.rowtime.base
    of_base = 0 if base is None else getattr(base, "nbytes", None)
    return (
        len(tray) > LARGE_ROWS
        or of_base is None
        or of_base > LARGE_ROWS * tray.rowtime.itemsize
        or any(isinstance(column, DeferredColumn) for column in tray.columns)
    )
