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
from rowtide.rowtime.period import GridWindow, Period, end_after
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


def where_counts(plan: Plan, positions: Sequence[PartitionPosition], stored: StoredError) -> Counting | None:
    """Return where a late row counts, by the committed positions; None: it is not late or has no rowtime."""
    row = stored.row
    if row.kind != "LATE" or row.rowtime is None:
        return None
    bounds = [
        each.bound for each in positions if each.relation == row.stream and not is_resubmission(each.place)
    ]
    # A partition without a bound holds the bound of its stream back.
    known = [bound for bound in bounds if bound is not None]
    joined = min(known) if known and len(known) == len(bounds) else row.rowtime
    rowtime = max(row.rowtime, joined, row.rowtime if row.bound is None else row.bound)
    nodes = {id(each): each for pump in plan.pumps for each in nodes_below(pump.node)}.values()
    ends = {
        (each.relation, _end(window, rowtime)): None
        for each in nodes
        for window in each.windows_of_input()
        if each.relation == row.relation or any(_has_times_of(row.relation, below) for below in each.inputs)
    }
    return Counting(rowtime, tuple(sorted(ends)))


def _has_times_of(relation: str, node: Node) -> bool:
    """Return whether rows of ``node`` have the rowtimes of rows of ``relation``."""
    if node.relation == relation:
        return True
    keeps = node.keeps_rowtime or isinstance(node, Sort | Merge)
    return (
        keeps and not isinstance(node, Source) and any(_has_times_of(relation, each) for each in node.inputs)
    )


def _end(window: GridWindow, rowtime: int) -> int:
    """Return the earliest end of a window that contains a rowtime."""
    return end_after(window, rowtime) if isinstance(window, Period) else window.next_end(rowtime)
