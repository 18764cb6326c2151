"""ORDER BY a period of ROWTIME and further keys.

See docs/sql/semantics.md#distinct-and-order-by-within-a-period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowtide.errors import StatementError
from rowtide.expr.tree import Expr, FieldRef, RowtimeRef, uses_rowtime
from rowtide.plan.nodes import Node, SortInPeriod, TopChanges
from rowtide.rows.types import TIMESTAMP, Field, RowType
from rowtide.rowtime.period import Period
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.relations.relations import (
    QueryShape,
    SelectOutput,
    can_be_null,
    project,
    substitute,
    unique_names,
)

OLD_ROWTIME = "$ROWTIME"
"""The field for the old rowtime, if a query changes the rowtime and also reads the old one."""


@dataclass(frozen=True, slots=True)
class PeriodOrder:
    """The order of a query: its period, then keys over the input rows of its outputs."""

    period: Period
    keys: tuple[tuple[Expr, bool], ...]
    """Each with True if it descends."""
    limit: int | None = None
    offset: int = 0


def sorted_in_period(relation: str, shape: QueryShape, order: PeriodOrder) -> QueryShape:
    """Return ``shape`` with its rows sorted in each period; ROWTIME becomes the period's end."""
    node, outputs = with_old_rowtime(relation, shape.node, shape.outputs)
    node, keys = _with_keys(relation, node, order)
    sorted_rows = SortInPeriod(relation, node, order.period, keys, order.limit, order.offset)
    return replace(shape, node=sorted_rows, outputs=outputs)


def first_of_changes(
    relation: str,
    shape: QueryShape,
    order: PeriodOrder,
    partition: Sequence[Expr],
    retention: Retention | None,
) -> QueryShape:
    """Return the first rows of a table by ``order``, for each ``partition``.

    Raises:
      StatementError: all rows would be kept forever, and no RETENTION is declared.
    """
    node, keys = _with_keys(relation, shape.node, order, partition)
    of_partition = tuple(dict.fromkeys(at for at, _ in keys[: len(partition)]))
    top = TopChanges(relation, node, of_partition, keys[len(partition) :], order.limit, order.offset)
    if top.unlimited_state() is not None and (retention is None or retention.length_ms is not None):
        raise StatementError(
            "the rows that are sorted here never end: all of them would have to be kept forever",
            span=shape.place,
            hint="CREATE VIEW name OPTIONS (RETENTION 'UNBOUNDED') AS .. keeps them, if that is intended.",
        )
    return replace(shape, node=top)


def with_order(shape: QueryShape, order: PeriodOrder) -> QueryShape:
    """Return ``shape`` with its sort keys as last outputs, for the caller that lists its rows."""
    keys = tuple(
        SelectOutput(f"$ORDER{at}", key, True, shape.place) for at, (key, _) in enumerate(order.keys)
    )
    descending = tuple(each for _, each in order.keys)
    return replace(shape, outputs=(*shape.outputs, *keys), order=descending)


def _with_keys(
    relation: str, node: Node, order: PeriodOrder, partition: Sequence[Expr] = ()
) -> tuple[Node, tuple[tuple[int, bool], ...]]:
    """Return ``node`` with a field for each computed term: first of ``partition``, then of the order."""
    fields = list(node.row_type)
    exprs: list[Expr] = [FieldRef(index, field.type) for index, field in enumerate(fields)]
    keys = []
    for key, descending in (*((each, False) for each in partition), *order.keys):
        if key not in exprs:
            fields.append(Field("$KEY", key.type, can_be_null(key, node.row_type)))
            exprs.append(key)
        keys.append((exprs.index(key), descending))
    names = unique_names([field.name for field in fields])
    row_type = RowType(tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True)))
    if len(exprs) > len(node.row_type):
        node = project(relation, node, tuple(exprs), row_type)
    return node, tuple(keys)


def with_old_rowtime(
    relation: str, node: Node, outputs: tuple[SelectOutput, ...]
) -> tuple[Node, tuple[SelectOutput, ...]]:
    """Add the old rowtime as a field for the outputs that read it. ROWTIME itself is the new one."""
    if not any(uses_rowtime(output.expr) for output in outputs if not output.is_rowtime):
        return node, outputs
    row_type = node.row_type
    kept: tuple[Expr, ...] = tuple(FieldRef(index, field.type) for index, field in enumerate(row_type))
    fields = (*row_type, Field(OLD_ROWTIME, TIMESTAMP, nullable=False))
    names = unique_names([field.name for field in fields])
    named = tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True))
    old: dict[Expr, Expr] = {RowtimeRef(): FieldRef(len(row_type), TIMESTAMP)}
    return project(relation, node, (*kept, RowtimeRef()), RowType(named)), tuple(
        output if output.is_rowtime else replace(output, expr=substitute(output.expr, old))
        for output in outputs
    )
