"""Joins of two tables, whose result is a table: its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import common_type
from rowtide.expr.tree import Expr, Literal, fields_used
from rowtide.plan.nodes import Filter, JoinKind, Merge, Node, TableJoin
from rowtide.plan.nodes.join.table_join import LEFT, RIGHT, tagged, tagged_type
from rowtide.rows.types import BOOLEAN, RowType
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.relations.relations import conjunction, project, shifted, unique_names


class WithKeys(Protocol):
    """Returns a node with a field for each computed key, and the positions of the keys."""

    def __call__(self, node: Node, keys: list[Expr], *, kept: bool) -> tuple[Node, tuple[int, ...]]:
        """Compute ``keys`` for the rows of ``node``; ``kept``: rows for which a key fails stay."""


def table_join(
    relation: str,
    kind: JoinKind,
    sides: tuple[Node, Node],
    pairs: Sequence[tuple[Expr, Expr]],
    others: Sequence[Expr],
    with_keys: WithKeys,
) -> tuple[TableJoin, int]:
    """Plan a join of two changelogs: return its node, and the number of fields added to the left side.

    ``pairs`` are the equalities, over the fields of the left and of the right side; ``others`` are the further
    conditions of ON, over the left fields followed by the right ones.
    """
    width = len(sides[0].row_type)
    left, right = sides
    inside: list[Expr] = []
    for each in others:
        used = fields_used(each)
        if each == Literal(True, BOOLEAN):
            continue
        # A condition on one side alone can filter that side, if its unmatched rows are not kept.
        if used and max(used) < width and not kind.keeps_left:
            left = Filter(relation, left, each)
        elif used and min(used) >= width and not kind.keeps_right:
            right = Filter(relation, right, shifted(each, width, -width))
        else:
            inside.append(each)
    left, left_key = with_keys(left, [key for key, _ in pairs], kept=kind.keeps_left)
    right, right_key = with_keys(right, [key for _, key in pairs], kept=kind.keeps_right)
    added = len(left.row_type) - width
    keys = [
        replace(left.row_type[one], type=common_type([left.row_type[one].type, right.row_type[other].type]))
        for one, other in zip(left_key, right_key, strict=True)
    ]
    rows = tagged_type(left.row_type, right.row_type, keys)
    tagged_sides = tuple(
        project(relation, node, tagged(rows, side, node.row_type, key, len(left.row_type)), rows)
        for side, node, key in ((LEFT, left, left_key), (RIGHT, right, right_key))
    )
    fields = [
        *(replace(field, nullable=field.nullable or kind.keeps_right) for field in left.row_type),
        *(replace(field, nullable=field.nullable or kind.keeps_left) for field in right.row_type),
    ]
    names = unique_names([field.name for field in fields])
    row_type = RowType(tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True)))
    node = TableJoin(
        relation,
        Merge(relation, tagged_sides, of_changes=True),
        len(pairs),
        len(left.row_type),
        kind,
        row_type,
        conjunction([shifted(each, width, added) for each in inside]),
        _identity(kind, (left, left_key), (right, right_key)),
        left.is_limited() and right.is_limited(),
        _paired((left, left_key), (right, right_key)),
    )
    return node, added


def check_limit(node: TableJoin, retention: Retention | None, span: SourceSpan) -> None:
    """Check that both sides have a limit, or that the view or pump has RETENTION 'UNBOUNDED'.

    Raises:
      StatementError: a side has no limit, and RETENTION is not unbounded.
    """
    if node.unlimited_state() is None or (retention is not None and retention.length_ms is None):
        return
    raise StatementError(
        "a side of this join never loses its rows: all of them would have to be kept forever",
        span=span,
        hint="CREATE VIEW name OPTIONS (RETENTION 'UNBOUNDED') AS .. keeps them, if that is intended.",
    )


def _paired(
    left: tuple[Node, tuple[int, ...]], right: tuple[Node, tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of equal fields, if they are the keys of both sides."""
    (left_node, left_on), (right_node, right_on) = left, right
    if set(left_node.key_fields() or ()) != set(left_on) or set(right_node.key_fields() or ()) != set(
        right_on
    ):
        return ()
    width = len(left_node.row_type)
    return tuple((one, width + other) for one, other in zip(left_on, right_on, strict=True))


def _identity(
    kind: JoinKind, left: tuple[Node, tuple[int, ...]], right: tuple[Node, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """Return the key of the result: one side's key, if each of its rows matches at most one row."""
    (left_node, left_on), (right_node, right_on) = left, right
    width = len(left_node.row_type)
    of_left, of_right = left_node.key_fields(), right_node.key_fields()
    if of_left is None or of_right is None:
        return None
    if set(of_right) <= set(right_on) and not kind.keeps_right:
        return of_left
    if set(of_left) <= set(left_on) and not kind.keeps_left:
        return tuple(width + at for at in of_right)
    return (*of_left, *(width + at for at in of_right))
