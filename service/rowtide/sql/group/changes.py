"""EMIT CHANGES, and groups of tables: the possible changelogs, and the limits of their state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import Expr, FieldRef, uses_rowtime
from rowtide.plan.nodes import Filter, GroupChanges, Node
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.grammar.syntax import Emit
from rowtide.sql.relations.relations import QueryShape, SelectOutput, projected


def check_emit(emit: Emit, *, grouped: bool, changelog: bool) -> None:
    """Check that the query has changes to emit.

    Raises:
      StatementError: the rows of the query never change.
    """
    if not grouped and (not changelog or emit.every_ms is not None):
        raise StatementError(
            "EMIT CHANGES needs GROUP BY",
            span=emit.place,
            hint="Remove EMIT CHANGES: a stream's rows do not change, and a query over a table already "
            "returns changes.",
        )


def check_rowtime(
    outputs: Sequence[SelectOutput], having: Expr | None, having_span: SourceSpan | None
) -> None:
    """Check that no column is computed from ROWTIME: the values of DELETE and INSERT would differ.

    Raises:
      StatementError: a column is computed from ROWTIME.
    """
    places = [each.place for each in outputs if not each.is_rowtime and uses_rowtime(each.expr)]
    if having is not None and uses_rowtime(having) and having_span is not None:
        places.append(having_span)
    if places:
        raise StatementError(
            "ROWTIME of a changelog is that of each change: no column can be computed from it",
            span=places[0],
            hint="MAX(ROWTIME) is the time of the group's last row.",
        )


def limited(node: GroupChanges, retention: Retention | None, span: SourceSpan) -> GroupChanges:
    """Apply the RETENTION of the view or pump to groups without a limit.

    Raises:
      StatementError: the groups would be kept forever, and no RETENTION is declared.
    """
    if node.unlimited_state() is None and not (retention is not None and node.is_one_small_group()):
        return node
    if retention is None:
        raise StatementError(
            "the groups of this query never end: all of them would have to be kept forever",
            span=span,
            hint="Add FLOOR(ROWTIME TO MINUTE), or another unit, to GROUP BY; or write CREATE VIEW name "
            "OPTIONS (RETENTION '1 DAY') AS .., or RETENTION 'UNBOUNDED', if that is intended.",
        )
    if node.of_changes:
        refuse_time(retention, span)
    return replace(node, retention_ms=retention.length_ms)


def refuse_time(retention: Retention, span: SourceSpan) -> None:
    """Refuse a RETENTION of a time for groups of changes.

    Raises:
      StatementError: the RETENTION is not UNBOUNDED.
    """
    if retention.length_ms is not None:
        raise StatementError(
            "groups of changes cannot be dropped after a time: one of their rows may still be deleted",
            span=span,
            hint="RETENTION 'UNBOUNDED' keeps them forever.",
        )


def with_shown(
    node: Node,
    outputs: Sequence[SelectOutput],
    having: Expr | None,
    order: Sequence[tuple[Expr, bool]],
    qualified: Iterable[Expr],
) -> Node:
    """Return groups, with or without HAVING, with the expressions that are read: other changes are not emitted.

    ``qualified`` are those that QUALIFY reads. If the query reads every aggregate unchanged, all changes are emitted.
    """
    if isinstance(node, Filter):
        return replace(node, input=with_shown(node.input, outputs, having, order, qualified))
    if not isinstance(node, GroupChanges):
        return node
    read = [each.expr for each in outputs if not each.is_rowtime]
    read += [key for key, _ in order] + ([] if having is None else [having])
    read += [each for each in dict.fromkeys(qualified) if each not in read]
    keys = len(node.row_type) - len(node.aggregates)
    plain = {each.index for each in read if isinstance(each, FieldRef)}
    return node if plain.issuperset(range(keys, len(node.row_type))) else replace(node, shown=tuple(read))


def distinct_changes(shape: QueryShape, relation: str, retention: Retention | None) -> QueryShape:
    """Return the distinct rows of a changelog, as groups by all columns."""
    node = projected(shape, relation)
    for field in node.row_type:
        check_key(field.type, f'column "{field.name}" of DISTINCT', shape.place)
    keys = tuple(range(len(node.row_type)))
    grouped = GroupChanges(relation, node, None, keys, (), node.row_type, of_changes=True)
    fields = iter(
        replace(output, expr=FieldRef(at, output.expr.type)) for at, output in enumerate(shape.fields)
    )
    outputs = tuple(output if output.is_rowtime else next(fields) for output in shape.outputs)
    return replace(shape, node=limited(grouped, retention, shape.place), outputs=outputs)
