"""Narrows joins of streams: fields of a side that nothing reads are dropped before the join.

A join keeps the rows of its window, often for long, and a query selects only some fields of wide rows. Keys,
fields of the condition and the sides' own ROWTIMEs stay, and so do expressions that may reject a row, because
they must be computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rowtide.expr.tree import Expr, FieldRef, Literal, RowtimeRef, fields_used, renumbered
from rowtide.plan.nodes import Filter, Node, Project, ProjectKeys, WindowJoin
from rowtide.rows.types import RowType

OWN_ROWTIME = "$ROWTIME"
"""Prefix of the name of the field with the ROWTIME of one side."""


def narrowed(node: Project) -> Project:
    """Return the projection over a join without fields that neither it nor a filter between them reads."""
    filters: list[Filter] = []
    below = node.input
    while isinstance(below, Filter):
        filters.append(below)
        below = below.input
    if not isinstance(below, WindowJoin):
        return node
    read = _used(node.expressions) | _used([each.condition for each in filters])
    kept = _kept(below, read)
    if len(kept) == len(below.row_type):
        return node
    places = {old: new for new, old in enumerate(kept)}
    found: Node = _narrower(below, kept)
    for each in reversed(filters):
        found = replace(each, input=found, condition=renumbered(each.condition, places))
    return replace(
        node, input=found, expressions=tuple(renumbered(each, places) for each in node.expressions)
    )


def _kept(join: WindowJoin, read: Collection[int]) -> list[int]:
    """Return the fields of a join that must stay, in their order."""
    width = len(join.left.row_type)
    wanted = {*read, *join.left_key, *(width + key for key in join.right_key)}
    if join.condition is not None:
        wanted |= fields_used(join.condition)
    for start, side in ((0, join.left), (width, join.right)):
        for index, field in enumerate(side.row_type):
            if field.name.startswith(OWN_ROWTIME) or not _may_go(side, index):
                wanted.add(start + index)
    return sorted(wanted)


def _may_go(side: Node, field: int) -> bool:
    """Return whether a side returns the same rows without a field."""
    return not isinstance(side, Project) or isinstance(
        side.expressions[field], FieldRef | RowtimeRef | Literal
    )


def _narrower(join: WindowJoin, kept: Sequence[int]) -> WindowJoin:
    width = len(join.left.row_type)
    left = [index for index in kept if index < width]
    right = [index - width for index in kept if index >= width]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        join,
        left=_only(join.relation, join.left, left),
        right=_only(join.relation, join.right, right),
        left_key=tuple(left.index(key) for key in join.left_key),
        right_key=tuple(right.index(key) for key in join.right_key),
        row_type=RowType(tuple(join.row_type[index] for index in kept)),
        condition=None if join.condition is None else renumbered(join.condition, places),
    )


def _only(relation: str, side: Node, kept: Sequence[int]) -> Node:
    """Return some fields of a side of a join."""
    if len(kept) == len(side.row_type):
        return side
    row_type = RowType(tuple(side.row_type[index] for index in kept))
    if isinstance(side, Project):
        expressions = tuple(side.expressions[index] for index in kept)
        if isinstance(side, ProjectKeys):
            side = replace(side, keys=tuple(map(kept.index, side.keys)))
        return narrowed(replace(side, expressions=expressions, row_type=row_type))
    own = tuple(FieldRef(index, side.row_type[index].type) for index in kept)
    return narrowed(Project(relation, side, own, row_type))


def _used(expressions: Sequence[Expr]) -> frozenset[int]:
    return frozenset().union(*map(fields_used, expressions))
