"""Questions about a plan that involve several of its nodes."""

from __future__ import annotations

from rowtide.plan.nodes import GroupChanges, Node, Source, nodes_below


def rowtime_field(node: Node) -> int | None:
    """Return the first field of ``node`` that always holds its row's ROWTIME or its group's period.

    ``replay --from --to`` compares by it.
    """
    return next((at for at in range(len(node.row_type)) if node.holds_rowtime(at)), None)


def reads_streams(node: Node) -> bool:
    """Return whether a node below reads a stream. Otherwise a changelog is only of tables."""
    return any(isinstance(each, Source) for each in nodes_below(node))


def begins_with_window(node: Node) -> bool:
    """Return whether the first field of changes is the window of their groups."""
    while node.keeps_rows:
        (node,) = node.inputs
    return isinstance(node, GroupChanges) and node.window is not None
