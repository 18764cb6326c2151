"""QUALIFY: filters the rows of a query by its windows.

It is a filter after the windows. One form of it over a table, or over other changes, needs no windows: ``QUALIFY
ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) <= 3`` keeps the first rows of each partition, as ORDER BY with LIMIT
does. If the query selects the number itself, a row whose number changes is sent again. Over the rows of a stream with
EMIT CHANGES it is the only form.

``SELECT .. FROM (SELECT .., ROW_NUMBER() OVER (..) AS n FROM table) WHERE n <= 3`` has the same meaning. So has this
query of a stream with EMIT CHANGES at its end, which is then meant for the rows that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import Filter, Node, NumberedChanges, TopChanges, rewrite
from rowtide.rows.types import BIGINT
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.syntax import (
    Between,
    Binary,
    ColumnRef,
    DerivedTable,
    Expression,
    FunctionCall,
    NumberLiteral,
    OrderItem,
    Select,
    SelectItem,
    StarItem,
    WindowSpec,
    names_aggregate,
)
from rowtide.sql.grammar.syntax_walk import all_columns_in, calls_in, conjuncts, connected, replaced
from rowtide.sql.group.changes import check_rowtime
from rowtide.sql.relations.relations import QueryShape, can_be_null, substitute
from rowtide.sql.select.period_order import PeriodOrder, first_of_changes

RANK = FieldRef(-1, BIGINT)
"""A placeholder for the number of a row of a table, until its field is known."""
MOST_NUMBERS = 16
"""Maximum number of numbered rows of each partition, because a change can move all of them."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Top:
    """The rows of each partition of a table that QUALIFY keeps: from ``first`` to ``last``, counted from 1.

    ``call`` is the ROW_NUMBER, ``rest`` are the other conditions of QUALIFY.
    """

    call: FunctionCall
    first: int
    last: int | None
    rest: tuple[Expression, ...]

    @property
    def count(self) -> int | None:
        """The number of rows that stay in each partition; None if it has no limit."""
        return None if self.last is None else max(0, self.last - self.first + 1)

    @property
    def can_be_numbered(self) -> bool:
        """Whether the numbers of the rows can be selected without windows."""
        return self.count in range(1, MOST_NUMBERS + 1)


def holds_window(syntax: Expression) -> bool:
    """Return whether an expression contains a window function."""
    return any(call.over is not None for call in calls_in(syntax))


def top_of(qualify: Expression) -> Top | None:
    """Return the rows of a table that QUALIFY keeps; None if it has another condition than limits of one ROW_NUMBER."""
    call: FunctionCall | None = None
    first, last = 1, None
    rest = []
    for each in conjuncts(qualify):
        if not holds_window(each):
            rest.append(each)
            continue
        found = _numbers(each)
        if found is None or (call is not None and found[0] != call):
            return None
        call, least, most = found
        first = max(first, least)
        last = most if last is None else last if most is None else min(most, last)
    return None if call is None else Top(call, first, last, tuple(rest))


def _numbers(condition: Expression) -> tuple[FunctionCall, int, int | None] | None:
    """Return the ROW_NUMBER that a condition limits, and its least and greatest value."""
    if isinstance(condition, Between) and not condition.negated:
        call, low, high = condition.operand, _whole(condition.low), _whole(condition.high)
        if is_row_number(call) and low is not None and high is not None:
            return call, low, high
        return None
    if not isinstance(condition, Binary) or condition.operator not in _TURNED:
        return None
    for call, operator, other in (
        (condition.left, condition.operator, condition.right),
        (condition.right, _TURNED[condition.operator], condition.left),
    ):
        number = _whole(other)
        if not is_row_number(call) or number is None:
            continue
        match operator:
            case "<":
                return call, 1, number - 1
            case "<=":
                return call, 1, number
            case ">":
                return call, number + 1, None
            case ">=":
                return call, number, None
            case _:
                return call, number, number
    return None


def _whole(syntax: Expression) -> int | None:
    fits = isinstance(syntax, NumberLiteral) and syntax.text.isdigit() and len(syntax.text) < 10
    return int(syntax.text) if isinstance(syntax, NumberLiteral) and fits else None


def is_row_number(syntax: Expression) -> TypeGuard[FunctionCall]:
    """Return whether an expression is the call of ROW_NUMBER over a window."""
    return isinstance(syntax, FunctionCall) and syntax.name == "ROW_NUMBER" and syntax.over is not None


def _without_window(span: SourceSpan) -> StatementError:
    return StatementError(
        "QUALIFY needs a condition on a window (OVER)", span=span, hint="Write other conditions in WHERE."
    )


@dataclass(frozen=True, slots=True)
class QualifiedRows:
    """The rows of a table that stay: the first ones by ``order`` in each ``partition``.

    Only those of them for which ``conditions`` hold.
    """

    order: PeriodOrder
    partition: tuple[Expr, ...]
    conditions: tuple[Expr, ...]


class Qualify:
    """QUALIFY of one query, planned by ``planner`` over the rows after its windows.

    ``follow`` is set if the query returns changes: it returns the window of the rows that are kept, or None if the
    number of each row is computed. ``sort_keys`` returns the sort keys of ORDER BY.
    """

    def __init__(
        self,
        condition: Expression | None,
        planner: ExpressionPlanner,
        follow: Callable[[Top], WindowSpec | None] | None,
        sort_keys: Callable[[Sequence[OrderItem]], tuple[tuple[Expr, bool], ...]],
    ) -> None:
        self._condition = condition
        self._planner = planner
        self._sort_keys = sort_keys
        self._of_changes = follow is not None
        self._top: tuple[Top, WindowSpec] | None = None
        if condition is None:
            return
        if not holds_window(condition):
            raise _without_window(condition.place)
        top = None if follow is None else top_of(condition)
        window = None if follow is None or top is None else follow(top)
        if top is not None and window is not None:
            self._top = top, window
            return
        # This registers the windows in it. Their positions in the row are known after all windows.
        planner.condition(condition)

    def over(self, relation: str, node: Node, old_rowtime: FieldRef | None) -> Node:
        """Return the rows that stay, of a table those for which the condition on windows holds.

        ``old_rowtime`` has the rows' own ROWTIME, if ranking has changed it.

        Raises:
          StatementError: the condition on the rows of a table reads ROWTIME.
        """
        if self._condition is None or self._top is not None:
            return node
        condition = self._planner.condition(self._condition)
        if self._of_changes:
            check_rowtime((), condition, self._condition.place)
        if old_rowtime is not None:
            condition = substitute(condition, {RowtimeRef(): old_rowtime})
        return Filter(relation, node, condition)

    def reads(self) -> tuple[Expr, ...]:
        """Return the expressions by which the first rows of a table are chosen; none for any other query."""
        kept = self.kept()
        return (
            () if kept is None else (*(key for key, _ in kept.order.keys), *kept.partition, *kept.conditions)
        )

    def kept(self) -> QualifiedRows | None:
        """Return the first rows of a table that stay; None for any other query."""
        if self._top is None:
            return None
        top, spec = self._top
        order = PeriodOrder(Period(PeriodEdge.EXACT), self._sort_keys(spec.terms), top.count, top.first - 1)
        return QualifiedRows(
            order,
            tuple(dict.fromkeys(fold(self._planner.plan(each)) for each in spec.partition)),
            tuple(self._planner.condition(each) for each in top.rest),
        )


def with_names_of(select: Select, scope: NameScope) -> Expression | None:
    """Return QUALIFY with the columns of the select list instead of their names."""
    meant = {
        item.alias: item.expression
        for item in select.items
        if isinstance(item, SelectItem) and item.alias is not None
    }

    def expression(syntax: object) -> Expression | None:
        if isinstance(syntax, ColumnRef) and len(syntax.parts) == 1 and not scope.resolves(syntax):
            return meant.get(syntax.parts[0])
        return None

    return replaced(select.qualify, expression)


def kept_of_changes(
    relation: str, shape: QueryShape, rows: QualifiedRows, retention: Retention | None
) -> QueryShape:
    """Return the rows of a table that stay, with their numbers if the query selects them.

    Raises:
      StatementError: all rows would be kept forever, or too many rows of a stream have numbers.
    """
    order = rows.order

    def kept(of: PeriodOrder) -> QueryShape:
        found = first_of_changes(relation, shape, of, rows.partition, retention)
        node: Node = found.node
        for each in rows.conditions:
            node = Filter(relation, node, each)
        return replace(found, node=node)

    if not any(_has_number(each.expr) for each in shape.outputs):
        return kept(order)
    count = order.limit
    if count is None:
        raise StatementError(
            "the row numbers that are selected with EMIT CHANGES need an upper limit",
            span=shape.place,
            hint=f"QUALIFY n <= 3 adds one; {MOST_NUMBERS} numbers are possible.",
        )
    if not 0 < count <= MOST_NUMBERS:
        raise StatementError(
            f"the numbers of at most {MOST_NUMBERS} rows of each partition can be selected with EMIT CHANGES",
            span=shape.place,
            hint="Without the number itself in the select list any number of rows can be kept.",
        )
    found = kept(order)
    top = found.node
    while not isinstance(top, TopChanges):
        (top,) = top.inputs
    number: Expr = FieldRef(len(top.row_type), BIGINT)
    if count == 1:
        number = Literal(order.offset + 1, BIGINT)
    else:
        numbered = NumberedChanges(relation, top.input, top.partition, top.keys, top.limit, top.offset)
        found = replace(found, node=rewrite(found.node, lambda each: numbered if each is top else each))
    row_type = found.node.row_type
    given = (replace(each, expr=substitute(each.expr, {RANK: number})) for each in found.outputs)
    typed = (replace(each, nullable=can_be_null(each.expr, row_type)) for each in given)
    return replace(found, outputs=tuple(typed))


def _has_aggregate(query: Select) -> bool:
    listed = (item.expression for item in query.items if isinstance(item, SelectItem))
    return any(names_aggregate(call) for each in listed for call in calls_in(each))


def _has_number(expr: Expr) -> bool:
    return expr == RANK or (isinstance(expr, Call) and any(map(_has_number, expr.args)))


def with_qualify(query: Select, gives_changes: Callable[[Select], bool]) -> Select:
    """Rewrite a WHERE on the row numbers of a query in FROM as QUALIFY of that query.

    ``gives_changes`` returns whether a query returns changes. A query of a stream is rewritten if ``query`` has EMIT
    CHANGES and no groups of its own.
    """
    source = query.source
    if not isinstance(source, DerivedTable) or source.columns or source.window is not None:
        return query
    inner = source.query
    if not isinstance(inner, Select) or inner.qualify is not None or inner.distinct or inner.order_by:
        return query
    numbers = [
        item
        for item in inner.items
        if isinstance(item, SelectItem) and item.alias is not None and is_row_number(item.expression)
    ]
    if len(numbers) != 1 or inner.limit is not None:
        return query
    emits = not gives_changes(inner)
    if emits and (query.emit is None or query.group_by or _has_aggregate(query)):
        return query
    (number,) = numbers
    alias = None if source.alias is None else source.alias.text

    def is_number(syntax: object) -> bool:
        if not isinstance(syntax, ColumnRef) or number.alias is None:
            return False
        *before, last = (part.text for part in syntax.parts)
        return last == number.alias.text and before in ([], [alias])

    def counted(syntax: object) -> Expression | None:
        return number.expression if is_number(syntax) else None

    kept: list[Expression] = []
    rest: list[Expression] = []
    for each in conjuncts(query.where):
        whole = replaced(each, counted)
        if whole != each and _numbers(whole) is not None:
            kept.append(whole)
        else:
            rest.append(each)
    if not kept:
        return query
    where = connected(rest)
    outer = replace(query, where=where, emit=None if emits else query.emit)
    inner = replace(inner, emit=query.emit if emits else inner.emit)
    items = inner.items
    stars = any(isinstance(each, StarItem) for each in query.items)
    others = (query.items, where, query.group_by, query.having, query.order_by, query.qualify)
    if not stars and not any(map(is_number, all_columns_in((others, source.sample)))):
        items = tuple(each for each in items if each != number)
    inner = replace(inner, items=items, qualify=connected(kept))
    return replace(outer, source=replace(source, query=inner))
