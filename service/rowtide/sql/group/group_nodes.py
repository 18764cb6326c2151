"""The node that groups, over a Project if keys or arguments of aggregates are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, Expr, FieldRef
from rowtide.plan.nodes import (
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    GroupNode,
    Node,
)
from rowtide.rows.types import TIMESTAMP, Field, RowType
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Hop, HopByMonths, Period, Session
from rowtide.sql.group.group_windows import Window
from rowtide.sql.relations.guards import filtered_first
from rowtide.sql.relations.relations import aggregate_label, can_be_null, project, unique_names

PERIOD = "$PERIOD"

_Parts = tuple[tuple[int, ...], tuple[AggregateCall, ...], RowType]
"""Keys, aggregates and row type of a group node."""


def group_rows(
    relation: str, node: Node, window: Window, keys: Sequence[Expr], calls: Sequence[AggregateCall]
) -> GroupNode:
    """Return the node of groups that emit their final row; its fields are window, keys, aggregates."""
    node, parts = _computed(relation, node, window, keys, calls)
    match window:
        case Period():
            return GroupByPeriod(relation, node, window, *parts)
        case Hop() | HopByMonths():
            return GroupByHop(relation, node, window, *parts)
        case Cumulate() | CumulateByMonths():
            return GroupByCumulate(relation, node, window, *parts)
        case Session():
            return GroupBySession(relation, node, window, *parts)


def group_changes(
    relation: str, node: Node, window: Window | None, keys: Sequence[Expr], calls: Sequence[AggregateCall]
) -> GroupChanges:
    """Return the node of groups that emit every change; its fields are window (if any), keys, aggregates."""
    assert not isinstance(window, Cumulate | CumulateByMonths)
    # Which of two rows with equal arguments leaves may matter: all fields of the rows decide which one it is.
    whole = any(call.of is not None and not call.of.retracts for call in calls)
    node, parts = _computed(relation, node, window, keys, calls, whole=whole)
    return GroupChanges(relation, node, window, *parts)


def _computed(
    relation: str,
    node: Node,
    window: Window | None,
    keys: Sequence[Expr],
    calls: Sequence[AggregateCall],
    *,
    whole: bool = False,
) -> tuple[Node, _Parts]:
    """Return the input of the groups, with a Project if needed, and the terms over it; ``whole``: with all fields."""
    names = node.row_type.names
    calls = [filtered_first(call) for call in calls]
    wanted: list[Expr] = list(keys)
    if whole:
        wanted += [FieldRef(at, field.type) for at, field in enumerate(node.row_type)]
    for call in calls:
        wanted += [each for each in (call.argument, call.condition) if each is not None]
    wanted = list(dict.fromkeys(wanted))
    if any(not isinstance(each, FieldRef) for each in wanted):
        labels = [
            names[each.index] if isinstance(each, FieldRef) else f"${position}"
            for position, each in enumerate(wanted, 1)
        ]
        fields = [
            Field(label, each.type, can_be_null(each, node.row_type))
            for label, each in zip(unique_names(labels), wanted, strict=True)
        ]
        node = project(relation, node, tuple(wanted), RowType(tuple(fields)))
        where = {each: FieldRef(position, each.type) for position, each in enumerate(wanted)}
    else:
        where = {each: each for each in wanted if isinstance(each, FieldRef)}
    row_type = node.row_type
    computed = tuple(
        replace(
            call,
            argument=None if call.argument is None else where[call.argument],
            condition=None if call.condition is None else where[call.condition],
        )
        for call in calls
    )
    labels = [row_type[where[key].index].name for key in keys]
    for call in computed:
        argument = row_type[call.argument.index].name if isinstance(call.argument, FieldRef) else None
        labels.append(aggregate_label(call, argument))
    types = [key.type for key in keys] + [call.type for call in computed]
    nullable = [
        *(row_type[where[key].index].nullable for key in keys),
        *(not aggregate_of(call).never_null for call in computed),
    ]
    if window is not None:
        labels, types, nullable = [PERIOD, *labels], [TIMESTAMP, *types], [False, *nullable]
    fields = [Field(*each) for each in zip(unique_names(labels), types, nullable, strict=True)]
    return node, (tuple(where[key].index for key in keys), computed, RowType(tuple(fields)))
