"""Where a late row counts once it is resubmitted: at which rowtime, and in the windows of which relations.

A late row takes the least rowtime that its relation accepts when it enters, which is the bound of its stream
(docs/howto/run-and-recover.md#bad-rows). The bound only rises, so what is committed names the earliest time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionPosition, StoredError, is_resubmission
from rowtide.plan.nodes import Merge, Node, Sort, Source, nodes_below
from rowtide.plan.plan import Plan
from rowtide.rowtime.period import GridWindow, first_end
from rowtide.rowtime.text import time_text


@dataclass(frozen=True, slots=True)
class Counting:
    """The earliest rowtime (ms) that a row takes, and the first end of a window of each relation that it is in."""

    rowtime: int
    windows: tuple[tuple[str, int], ...]

    def text(self) -> str:
        """Return it as words of a command."""
        ends = ", ".join(
            f'in the window of "{name}" that ends at {time_text(end)}' for name, end in self.windows
        )
        return f"counts at {time_text(self.rowtime)} or later{f', {ends} or later' if ends else ''}"


class LateRows:
    """Returns where late rows count in a plan, by the committed positions. The plan is searched once a relation."""

    def __init__(self, plan: Plan, positions: Sequence[PartitionPosition]) -> None:
        self._nodes = list(
            {id(each): each for pump in plan.pumps for each in nodes_below(pump.node)}.values()
        )
        self._joined = _stream_bounds(positions)
        self._windows: dict[str, list[tuple[str, GridWindow]]] = {}

    def counting(self, stored: StoredError) -> Counting | None:
        """Return where a row counts; None: it is not late or has no rowtime."""
        row = stored.row
        if row.kind != "LATE" or row.rowtime is None:
            return None
        joined = None if row.stream is None else self._joined.get(row.stream)
        rowtime = max(bound for bound in (row.rowtime, joined, row.bound) if bound is not None)
        if row.relation not in self._windows:
            self._windows[row.relation] = self._windows_of(row.relation)
        ends = {(relation, first_end(window, rowtime)) for relation, window in self._windows[row.relation]}
        return Counting(rowtime, tuple(sorted(ends)))

    def _windows_of(self, relation: str) -> list[tuple[str, GridWindow]]:
        """Return the windows that rows of a relation are in with their own rowtimes, with the relation of each."""
        return [
            (each.relation, window)
            for each in self._nodes
            for window in each.windows_of_input()
            if each.relation == relation or any(has_times_of(relation, below) for below in each.inputs)
        ]


def _stream_bounds(positions: Sequence[PartitionPosition]) -> dict[str, int]:
    """Return the bound of each stream. A partition without a bound holds the bound of its stream back."""
    bounds: dict[str, list[int | None]] = {}
    for each in positions:
        if not is_resubmission(each.place):
            bounds.setdefault(each.relation, []).append(each.bound)
    known = {stream: [bound for bound in held if bound is not None] for stream, held in bounds.items()}
    return {stream: min(held) for stream, held in known.items() if len(held) == len(bounds[stream])}


def has_times_of(relation: str, node: Node) -> bool:
    """Return whether rows of ``node`` have the rowtimes of rows of ``relation``."""
    # A view that is read twice is one node, which is visited once.
    seen: set[int] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        if each.relation == relation:
            return True
        keeps = (each.keeps_rowtime or isinstance(each, Sort | Merge)) and not isinstance(each, Source)
        if keeps and id(each) not in seen:
            seen.add(id(each))
            pending += each.inputs
    return False
