"""The nodes of foreign tables and written streams: one for each, for any number of pumps.

Pumps into one target are the union of their rows, in the order in which the
pumps were created (docs/sql/semantics.md#merge-order, #pumps-and-inserts). So
the last of two rows on one key does not depend on how the input was cut into
commits (law 1).

Tables that refer to one another by foreign keys are a union in this sense, too, in which tables come before those
that refer to them. A row of one waits until the others have passed its place (docs/decisions/0029).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rowtide.expr.tree import Literal
from rowtide.plan.nodes import Filter, Merge, Node, Project, merged
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan
from rowtide.rows.types import Kind, RowType, Type


def table_nodes(plan: Plan) -> dict[str, Node]:
    """Return the node of each foreign table or stream that a pump writes to, by its name."""
    pumped: dict[str, list[Node]] = {}
    for pump in plan.pumps:
        pumped.setdefault(pump.target, []).append(pump.node)
    nodes = {
        target: nodes[0] if len(nodes) == 1 else merged(target, nodes) for target, nodes in pumped.items()
    }
    together = {
        name: _waiting(name, {each: nodes[each] for each in group})
        for group in referring_groups(plan.foreign_tables, nodes)
        for name in group
        if len(group) > 1
    }
    return nodes | together


def referring_groups(
    targets: Iterable[ForeignTable | ForeignStream], written: Collection[str]
) -> list[tuple[str, ...]]:
    """Return the names of the written tables that refer to one another, tables before those that refer to them.

    A table may refer to itself alone.
    """
    tables = {each.name: each for each in targets if isinstance(each, ForeignTable) and each.name in written}
    referred = {
        name: {key.table for key in table.foreign_keys if key.table in tables}
        for name, table in tables.items()
    }
    groups: list[set[str]] = []
    for name, others in referred.items():
        if others:
            own = {name, *others}
            own.update(*(group for group in groups if group & own))
            groups = [*(group for group in groups if not group & own), own]
    return [tuple(_parents_first([name for name in tables if name in group], referred)) for group in groups]


def _parents_first(names: list[str], referred: dict[str, set[str]]) -> Iterable[str]:
    placed: dict[str, None] = {}
    while waiting := [name for name in names if name not in placed]:
        placed[next(name for name in waiting if referred[name] <= {name, *placed})] = None
    return placed


def _waiting(name: str, group: dict[str, Node]) -> Merge:
    """Return the rows of one table of a group, in its place in the union of the group: without the others' rows."""
    row_type = group[name].row_type
    sources = [node if each == name else _no_rows(name, each, node, row_type) for each, node in group.items()]
    return Merge(name, tuple(sources), of_changes=any(node.is_changelog() for node in group.values()))


def _no_rows(name: str, other: str, node: Node, row_type: RowType) -> Node:
    relation = f"{name} waits for {other}"
    nothing = Filter(relation, node, Literal(False, Type(Kind.BOOLEAN)))
    return Project(relation, nothing, tuple(Literal(None, each.type) for each in row_type), row_type)
