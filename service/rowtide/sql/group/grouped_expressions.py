"""Expressions of a grouped query: over the group's row, with its aggregates."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from rowtide.errors import StatementError
from rowtide.expr.aggregates import SPELLED, Family
from rowtide.expr.constant import fold
from rowtide.expr.functions.arguments import PACKED
from rowtide.expr.functions.arrays.elements import MAKER
from rowtide.expr.functions.arrays.parts import ARRAY_OF, JSON_OF
from rowtide.expr.tree import AggregateCall, Call, Expr, Literal, PythonAggregate, RowtimeRef
from rowtide.rows.types import VARCHAR
from rowtide.sql.expressions.aggregate_list import (
    LATER,
    WINDOW_EDGES,
    AggregateList,
    Listed,
    listed_argument,
    number_of,
    paired,
    result_type,
    unpaired,
    values_order,
)
from rowtide.sql.expressions.declared_aggregates import declared_argument, declared_result
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.expressions.typed_calls import call
from rowtide.sql.grammar.syntax import (
    BinaryLiteral,
    BooleanLiteral,
    ColumnRef,
    DeclaredFunction,
    Expression,
    FunctionCall,
    NullLiteral,
    NumberLiteral,
    Rounded,
    Stepped,
    StringLiteral,
    TypedLiteral,
    is_aggregate,
)
from rowtide.sql.grammar.syntax_walk import calls_in


class GroupedPlanner(ExpressionPlanner):
    """Plans the select list and HAVING of a grouped query, over the group's row.

    ``groups`` maps each expression of GROUP BY over an input row to its field in the group's row. ROWTIME
    is that of the group's row: the end of its period or, if ``exact``, the ROWTIME of all its rows.
    ``edges`` returns TUMBLE_START and similar functions as expressions over the group's row, and ``over``
    does so for window functions over groups.
    """

    def __init__(
        self,
        scope: NameScope,
        clause: str,
        groups: dict[Expr, Expr],
        aggregates: AggregateList,
        *,
        exact: bool,
        edges: Callable[[FunctionCall], Expr],
        over: Callable[[FunctionCall], Expr] | None = None,
    ) -> None:
        super().__init__(scope, clause)
        self._edges = edges
        self._window_call = over
        self._groups = groups
        self._exact = exact
        self._aggregates = aggregates

    def typed(self, syntax: Expression) -> Expr:
        if isinstance(syntax, FunctionCall) and syntax.name in WINDOW_EDGES:
            return self._edges(syntax)
        if not _is_constant_or_aggregate(syntax):
            group = self._groups.get(fold(ExpressionPlanner(self._scope, self._clause).typed(syntax)))
            if group is not None:
                return group
        return super().typed(syntax)

    def _column(self, syntax: ColumnRef) -> Expr:
        typed = super()._column(syntax)
        if isinstance(typed, RowtimeRef):
            return typed
        name = ".".join(part.text for part in syntax.parts)
        raise StatementError(
            f'column "{name}" is neither a term of GROUP BY nor in an aggregate',
            span=syntax.place,
            hint=f"Add it to GROUP BY, or take ANY_VALUE({name}).",
        )

    def _rounded(self, syntax: Rounded) -> Expr:
        self._refuse_other_period(syntax)
        return super()._rounded(syntax)

    def _stepped(self, syntax: Stepped) -> Expr:
        self._refuse_other_period(syntax)
        return super()._stepped(syntax)

    def _refuse_other_period(self, syntax: Rounded | Stepped) -> None:
        """Refuse FLOOR(ROWTIME TO ..) unless it is the period of the group: it would use the end of the period."""
        if not self._exact and isinstance(self.plan(syntax.operand), RowtimeRef):
            raise StatementError(
                "this period of ROWTIME is not the one in GROUP BY",
                span=syntax.place,
                hint="ROWTIME alone is the group's: the end of its period.",
            )

    def _over(self, syntax: FunctionCall) -> Expr:
        return super()._over(syntax) if self._window_call is None else self._window_call(syntax)

    def _aggregate(self, syntax: FunctionCall) -> Expr:
        each_row = self.each_row and syntax.condition is None
        inner = ExpressionPlanner(self._scope, "an aggregate", each_row=each_row)
        if syntax.declared is not None and syntax.declared.aggregate is not None:
            return self._declared(syntax, syntax.declared, syntax.declared.aggregate, inner)
        aggregate = SPELLED[syntax.name]
        name, place = aggregate.name, syntax.place
        argument, fraction, value_type, number = None, aggregate.fraction, None, None
        args = syntax.args
        if name == "LISTAGG":
            return self._list(syntax, inner)
        if name == "ARRAY_AGG":
            return self._array(syntax, inner)
        if aggregate.takes_fraction and not syntax.star:
            if len(args) != 2:
                raise StatementError(f"{name} is written {name}(0.9) WITHIN GROUP (ORDER BY x)", span=place)
            fraction, args = fraction_of(inner.plan(args[0]), syntax), args[1:]
        if aggregate.takes_number is not None and not syntax.star:
            if len(args) != 2:
                raise StatementError(f"{name} is written {aggregate.written[0]}", span=place)
            number, args = number_of(inner.plan(args[1]), syntax), args[:1]
        if syntax.star:
            if name != "COUNT":
                raise StatementError(f"{syntax.name}(*) is not allowed", span=place)
        elif name == "COUNT" and syntax.distinct and len(args) > 1:
            argument = inner.as_one(args, place)
        elif aggregate.pair_of is not None:
            argument, value_type = paired(inner, syntax)
        elif len(args) != 1:
            raise StatementError(f"{syntax.name} takes one argument", span=place)
        else:
            argument = inner.plan(args[0])
        if syntax.ignore_nulls and aggregate.family is not Family.PLACE:
            raise StatementError(
                f"{syntax.name} does not take IGNORE NULLS: it always ignores NULLs", span=place
            )
        if argument is not None and syntax.order and isinstance(args[0], FunctionCall):
            # JSON_ARRAYAGG(x ORDER BY y), whose argument is JSON_ARRAY(x).
            order = values_order(inner, syntax, inner.plan(args[0].args[0]))
            if order is not None:
                name, argument = "ORDERED_JSON", order.pair(argument)
        condition = None if syntax.condition is None else inner.condition(syntax.condition)
        of = result_type(name, argument.type if argument is not None else None, place)
        distinct = syntax.distinct and aggregate.distinct_matters
        call = AggregateCall(
            name, argument, of, distinct, condition, syntax.ignore_nulls, fraction, number=number
        )
        return unpaired(self._aggregates.reference(call), value_type or of, aggregate)

    def _declared(
        self, syntax: FunctionCall, function: DeclaredFunction, of: PythonAggregate, inner: ExpressionPlanner
    ) -> Expr:
        """Plan an aggregate in Python: its result over its state."""
        argument = fold(declared_argument(inner, function, of, syntax))
        condition = None if syntax.condition is None else inner.condition(syntax.condition)
        call = AggregateCall(of.name, argument, PACKED, syntax.distinct, condition, of=of)
        return declared_result(self._aggregates.reference(call), of)

    def _list(self, syntax: FunctionCall, inner: ExpressionPlanner) -> Expr:
        listed = listed_argument(inner, syntax)
        condition = None if syntax.condition is None else inner.condition(syntax.condition)
        call = AggregateCall(listed.function, listed.argument, VARCHAR, syntax.distinct, condition)
        return listed.result(self._aggregates.reference(call))

    def _array(self, syntax: FunctionCall, inner: ExpressionPlanner) -> Expr:
        """Plan ARRAY_AGG: the elements of arrays of one value, or in another order, as JSON in a list of text."""
        place, args = syntax.place, syntax.args
        if syntax.star or len(args) != 1:
            raise StatementError("ARRAY_AGG is written ARRAY_AGG(x [ORDER BY y])", span=place)
        value = inner.plan(args[0])
        order = values_order(inner, syntax, value)
        argument = fold(call(MAKER, [value], args[0].place))
        condition = None if syntax.condition is None else inner.condition(syntax.condition)
        of = argument.type
        sort = None if order is None or order.keys != (value,) else _SORTS.get(order.letters)
        if order is not None and sort is None:
            text = Call("||", (Literal(",", VARCHAR), Call(JSON_OF, (value,), VARCHAR)), VARCHAR)
            listed = Listed("ORDERED_LISTAGG", order.pair(text), len(","))
            joined = AggregateCall(listed.function, listed.argument, VARCHAR, syntax.distinct, condition)
            return Call(ARRAY_OF, (listed.result(self._aggregates.reference(joined)),), of)
        found = self._aggregates.reference(
            AggregateCall("ARRAY_AGG", argument, of, syntax.distinct, condition)
        )
        return found if sort is None else Call(sort, (found,), of)


_SORTS = {"a": "ARRAY_SORT", "D": "$SORTED_DOWN"}
"""The functions that sort an array, by the letter of ``$ORDERED``."""
_STEP = Fraction(1, 2**40)
"""Less than the fraction of one value, in a group of any size."""


def fraction_of(typed: Expr, syntax: FunctionCall) -> Fraction:
    """Return the fraction of a percentile, its first argument, for values in ascending order.

    Fraction p of descending values is 1 - p of ascending ones. PERCENTILE_DISC, which returns one of the
    values, needs a slightly greater fraction.

    Raises:
      StatementError: it is not a constant from 0 to 1.
    """
    value = typed.value if isinstance(typed, Literal) else None
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool) or not 0 <= value <= 1:
        raise StatementError(f"{syntax.name} takes a constant from 0 to 1", span=syntax.args[0].place)
    if not syntax.descending:
        return Fraction(value)
    return min(Fraction(1), 1 - Fraction(value) + (_STEP if syntax.name == "PERCENTILE_DISC" else 0))


def has_aggregate(syntax: Expression) -> bool:
    """Return whether ``syntax`` contains an aggregate."""
    return any(is_aggregate(each) or _comes_later(each) for each in calls_in(syntax))


def _is_constant_or_aggregate(syntax: Expression) -> bool:
    literal = NumberLiteral | StringLiteral | BinaryLiteral | BooleanLiteral | NullLiteral | TypedLiteral
    special = any(
        each.over is not None or is_aggregate(each) or each.name in LATER | WINDOW_EDGES
        for each in calls_in(syntax)
    )
    return special or isinstance(syntax, literal)


def _comes_later(call: FunctionCall) -> bool:
    """Return whether a call is that of an aggregate that is not supported yet."""
    return call.over is None and call.name in LATER
