"""ORDER BY of a SELECT: its period, its sort keys, WITHIN.

See docs/sql/order-by.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import StatementError
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, uses_rowtime
from rowtide.rows.types import BOOLEAN, TIMESTAMP
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Period, PeriodEdge, Session
from rowtide.sql.expressions.conversions import UNTYPED_NULL
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_order
from rowtide.sql.expressions.scope import ROWTIME, NameScope
from rowtide.sql.grammar.syntax import ColumnRef, Expression, OrderItem, Select, SelectItem
from rowtide.sql.grammar.syntax_walk import parts_of
from rowtide.sql.group.group_windows import Window, period_of
from rowtide.sql.relations.relations import QueryShape
from rowtide.sql.select.period_order import PeriodOrder
from rowtide.sql.select.promotion import Promotion


class OrderPlanner:
    """Plans ORDER BY of ``select``, which reads names from ``scope``.

    ``of_rows``: the query is of the rows of streams, without groups.
    """

    def __init__(self, select: Select, scope: NameScope, *, tells_changes: bool, of_rows: bool) -> None:
        self._select = select
        self._scope = scope
        self._tells_changes = tells_changes
        self._of_rows = of_rows

    def within(self, promotion: Promotion | None, grouped: bool) -> int | None:
        """Return WITHIN of the query's ORDER BY, or None.

        Raises:
          StatementError: the order is not that of the rowtime.
        """
        items = self._select.order_by
        if not items:
            return None
        first = items[0]
        if len(items) > 1 or first.descending or not self._is_order_of(first, promotion, grouped):
            by_time = first.within_ms is not None
            raise StatementError(
                "ORDER BY .. WITHIN takes the column that is promoted to ROWTIME, or ROWTIME itself"
                if by_time
                else "ORDER BY on a stream must begin with ROWTIME or a period of it",
                span=first.place,
                hint="SELECT STREAM x AS ROWTIME, .. ORDER BY x WITHIN INTERVAL '10' SECOND sorts by x."
                if by_time
                else "ORDER BY FLOOR(ROWTIME TO MINUTE), x sorts the rows of each minute by x.",
            )
        return first.within_ms

    def _is_order_of(self, item: OrderItem, promotion: Promotion | None, grouped: bool) -> bool:
        expression = item.expression
        if isinstance(expression, ColumnRef) and expression.parts[-1].text == ROWTIME:
            # The output's ROWTIME comes first: s.ROWTIME is still that of the relation.
            return promotion is None or len(expression.parts) == 1
        if promotion is None or grouped:
            return promotion is not None and expression == promotion.syntax
        typed = ExpressionPlanner(self._scope, "ORDER BY").plan(expression)
        return typed == promotion.expr

    def period_order(
        self, planner: ExpressionPlanner, promotion: Promotion | None, window: Window | None = None
    ) -> PeriodOrder | None:
        """Return ORDER BY a period and further keys; None without ORDER BY, or for only ROWTIME.

        ``window`` is the window of GROUP BY; the keys are over the input rows of the select list.

        Raises:
          StatementError: the order does not begin with a period.
        """
        items = self._select.order_by
        if self._tells_changes and (items or self._select.limit):
            return PeriodOrder(Period(PeriodEdge.EXACT), self.sort_keys(planner, items, None))
        if not items or any(item.within_ms is not None for item in items):
            return None
        first, *rest = items
        plain = isinstance(first.expression, ColumnRef)
        if not rest and (plain or (promotion is not None and first.expression == promotion.syntax)):
            return None
        typed = planner.plan_as(first.expression, UNTYPED_NULL.type)
        if window is not None or promotion is not None:
            # The rows of groups, and promoted rows, are sorted by their new ROWTIME.
            of_rowtime = plain and self._is_order_of(first, promotion, grouped=window is not None)
            named = window is not None and promotion is None and typed == FieldRef(0, TIMESTAMP)
            same = promotion is not None and first.expression == promotion.syntax
            exact = (
                of_rowtime
                or same
                or (named and not isinstance(window, Session | Cumulate | CumulateByMonths))
            )
            period = Period(PeriodEdge.EXACT) if exact else None
            if window is None and not exact and not _qualifies_rowtime(first.expression):
                period = period_of(typed)
        else:
            period = period_of(typed)
        if period is None or first.descending:
            raise StatementError(
                "ORDER BY on a stream must begin with ROWTIME or a period of it, ascending",
                span=first.place,
                hint="ORDER BY FLOOR(ROWTIME TO MINUTE), x sorts the rows of each minute by x.",
            )
        return PeriodOrder(period, self.sort_keys(planner, rest, promotion))

    def sort_keys(
        self, planner: ExpressionPlanner, items: Sequence[OrderItem], promotion: Promotion | None
    ) -> tuple[tuple[Expr, bool], ...]:
        """Return the sort keys of ORDER BY, each with True if it descends."""
        keys: list[tuple[Expr, bool]] = []
        for item in items:
            if item.within_ms is not None and self._tells_changes:
                raise StatementError("WITHIN sorts streams by ROWTIME, not changes", span=item.place)
            key = self._order_key(planner, item, promotion)
            # NULL is the greatest value, so only the opposite order of NULLs needs a key.
            if item.nulls_first not in (None, item.descending):
                keys.append((Call("IS NULL", (key,), BOOLEAN), bool(item.nulls_first)))
            keys.append((key, item.descending))
        return tuple(keys)

    def _order_key(self, planner: ExpressionPlanner, item: OrderItem, promotion: Promotion | None) -> Expr:
        """Return the sort key of a further term: a column of the select list by its alias, or an expression."""
        syntax = item.expression
        if isinstance(syntax, ColumnRef) and len(syntax.parts) == 1:
            name = syntax.parts[0]
            for each in self._select.items:
                if isinstance(each, SelectItem) and each.alias == name:
                    syntax = each.expression
        key = planner.plan_as(syntax, UNTYPED_NULL.type)
        check_order(key.type, "a sort key", item.place)
        if isinstance(key, Literal):
            raise StatementError("a constant is not a sort key", span=item.place)
        if promotion is not None and uses_rowtime(key):
            raise StatementError("ROWTIME is promoted here: it can only be the first term", span=item.place)
        if self._tells_changes and not self._of_rows and uses_rowtime(key):
            raise StatementError(
                "changes are not sorted by ROWTIME: it is that of each change", span=item.place
            )
        return key

    def of_distinct(self, order: PeriodOrder, shape: QueryShape, distinct: QueryShape) -> PeriodOrder:
        """Return an order over the rows of DISTINCT: by its period and columns.

        Raises:
          StatementError: it sorts by something else.
        """
        columns = {
            before.expr: after.expr for before, after in zip(shape.outputs, distinct.outputs, strict=True)
        }
        exact = Period(PeriodEdge.EXACT)
        fits = distinct.closed is not None and order.period in (exact, distinct.closed.period)
        # A term with NULLS FIRST or LAST sorts by whether it is NULL before anything else.
        by_name = {
            Call("IS NULL", (before,), BOOLEAN): Call("IS NULL", (of,), BOOLEAN)
            for before, of in columns.items()
        }
        sorts = by_name | columns
        if not (fits or shape.changelog) or any(key not in sorts for key, _ in order.keys):
            of = "its columns" if shape.changelog else "its period and its columns"
            raise StatementError(f"ORDER BY of DISTINCT takes {of} only", span=self._select.order_by[0].place)
        keys = tuple((sorts[key], descending) for key, descending in order.keys)
        return PeriodOrder(exact, keys, order.limit, order.offset)


def _qualifies_rowtime(syntax: Expression) -> bool:
    """Return whether ``syntax`` contains ``s.ROWTIME``: the relation's ROWTIME even if the query promotes another."""
    if isinstance(syntax, ColumnRef):
        return len(syntax.parts) > 1 and syntax.parts[-1].text == ROWTIME
    return any(map(_qualifies_rowtime, parts_of(syntax)))
