"""Promotion: another ROWTIME for the rows of a query, by AS ROWTIME or by a pump that names ROWTIME."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import Expr
from rowtide.plan.nodes import BoundPolicy, Node, Promote, Source, below_same_rowtime
from rowtide.sql.expressions.conversions import UNTYPED_NULL
from rowtide.sql.grammar.syntax import Expression
from rowtide.sql.relations.relations import SelectOutput
from rowtide.sql.select.period_order import with_old_rowtime


@dataclass(frozen=True, slots=True)
class Promotion:
    """``expression AS ROWTIME``: the typed expression, and the syntax that ORDER BY can repeat."""

    expr: Expr
    syntax: Expression


def promoted(
    relation: str,
    node: Node,
    outputs: tuple[SelectOutput, ...],
    rowtime: Expr,
    max_ahead_ms: Mapping[str, int],
) -> tuple[Node, tuple[SelectOutput, ...]]:
    """Return rows with ``rowtime`` as their ROWTIME. Outputs read the old one from a field.

    ``max_ahead_ms`` is how far ahead each foreign stream allows a promoted rowtime to be.
    """
    node, outputs = with_old_rowtime(relation, node, outputs)
    below = below_same_rowtime(node)
    foreign = isinstance(below, Source) and below.foreign
    ahead = max_ahead_ms[below.relation] if foreign else None
    return Promote(relation, node, rowtime, BoundPolicy.DROP, ahead), outputs


def check_rowtime_type(expr: Expr, span: SourceSpan) -> None:
    """Check that the promoted value is a TIMESTAMP.

    Raises:
      StatementError: it is not.
    """
    if not expr.type.is_timestamp or expr == UNTYPED_NULL:
        shown = "NULL" if expr == UNTYPED_NULL else str(expr.type)
        raise StatementError(
            f"ROWTIME is a TIMESTAMP, what is promoted is {shown}",
            span=span,
            hint="CAST(.. AS TIMESTAMP) takes text such as '2024-02-29 10:00:00', or whole ms since 1970.",
        )
