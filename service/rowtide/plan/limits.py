"""What has a limit: which state grows for ever unless the pipeline says otherwise (sql-decisions 18)."""

from __future__ import annotations

from rowtide.plan.nodes import (
    Filter,
    GroupChanges,
    KeyedTable,
    Merge,
    Node,
    Project,
    Sort,
    Source,
    TableSource,
    WindowJoin,
)
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.plan.walk import nodes_below


def is_limited(node: Node) -> bool:
    """Tell whether what a changelog leaves has a limit that is not in question here.

    Engine tables hold what they hold; groups without a window are limited by them, or somebody has said
    that they are to be kept for ever. Groups that are over, or forgotten after a time, are never deleted:
    there is no end of those.
    """
    match node:
        case TableSource() | KeyedTable():
            return True
        case GroupChanges(window=window, retention_ms=retention_ms):
            return window is None and retention_ms is None
        case TableJoin(limited=limited):
            return limited
        case Filter() | Project() | Sort() | Merge() | TopChanges():
            return all(is_limited(each) for each in node.inputs)
        case _:
            return False


FOR_EVER_MS = 400_000_000_000_000
"""Longer than from the first TIMESTAMP to the last: how long what RETENTION 'UNBOUNDED' keeps is kept."""


def keeps_for_ever(node: GroupChanges | TableJoin | TopChanges | WindowJoin) -> bool:
    """Tell whether state has no limit of its own: groups without a window, rows that come without end."""
    if isinstance(node, WindowJoin):
        return node.retained
    if isinstance(node, TopChanges):
        return not is_limited(node.input)
    if isinstance(node, TableJoin):
        return not node.limited
    if is_one_small_group(node):
        return False
    return node.window is None and not (node.of_changes and is_limited(node.input))


_SMALL = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "ANY_VALUE"})
"""Aggregates of rows that only come which keep one value, or a few, however many rows there are."""
_SMALL_OF_CHANGES = frozenset({"COUNT", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"})
"""Aggregates of changes which do so: a sum gives a value back; behind the greatest another one comes up."""


def is_one_small_group(node: GroupChanges) -> bool:
    """Tell whether all rows are of one group, which keeps as much after the last row as after the first."""
    few = _SMALL_OF_CHANGES if node.of_changes else _SMALL
    small = all(call.function in few and not call.distinct for call in node.aggregates)
    return not node.keys and node.window is None and node.retention_ms is None and small


def reads_streams(node: Node) -> bool:
    """Tell whether any stream is read below: a changelog may be of a stream's groups, or of tables only."""
    return any(isinstance(each, Source) for each in nodes_below(node))


def begins_with_window(node: Node) -> bool:
    """Tell whether the first field of changes is the window of their groups."""
    while isinstance(node, Filter):
        node = node.input
    return isinstance(node, GroupChanges) and node.window is not None
