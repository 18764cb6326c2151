"""Forms of aggregates: the order of their values, and names that stand for another aggregate.

``LISTAGG(x ORDER BY y)`` and ``PERCENTILE_CONT(..) WITHIN GROUP (ORDER BY y)`` order their values. COUNT_IF,
REGR_COUNT and LATEST_BY_OFFSET are other names of COUNT and LAST_VALUE, TOPK_DISTINCT is TOPK(DISTINCT ..), and
HISTOGRAM is that of the texts of its values, for which both zeros are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from rowtide.errors import StatementError
from rowtide.expr.aggregates import SPELLED
from rowtide.rows.types import VARCHAR
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.syntax import Case, Cast, Expression, FunctionCall, IsTest, NumberLiteral, OrderItem
from rowtide.sql.grammar.syntax_walk import connected

SIGNLESS = "$SIGNLESS"
"""The function that returns its argument, and 0.0 for -0.0; no name of SQL."""


class AggregateGrammar(Protocol):
    """The parts of an aggregate."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def order_item(self) -> OrderItem:
        """Read one term of ORDER BY."""


def _count_where(call: FunctionCall, conditions: Sequence[Expression]) -> FunctionCall:
    """Return a COUNT of the rows for which all conditions are TRUE."""
    place = call.place
    every = connected(iter(conditions))
    counted: Expression = NumberLiteral("1", place)
    if every is not None:
        counted = Case(None, ((every, counted),), None, place)
    return replace(call, name="COUNT", args=(counted,))


def _count_if(call: FunctionCall) -> FunctionCall:
    return _count_where(call, call.args)


def _regr_count(call: FunctionCall) -> FunctionCall:
    return _count_where(call, [IsTest(each, "NULL", True, call.place) for each in call.args])


def _fraction_first(call: FunctionCall) -> FunctionCall:
    """Return a percentile with its arguments in the order of PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."""
    value, fraction = call.args
    return replace(call, args=(fraction, value))


def _not_null(name: str) -> Callable[[FunctionCall], FunctionCall]:
    return lambda call: replace(call, name=name, ignore_nulls=True)


def _of_text(call: FunctionCall) -> FunctionCall:
    place = call.args[0].place
    return replace(call, args=(Cast(FunctionCall(SIGNLESS, call.args, place), VARCHAR, place),))


def _of_different(call: FunctionCall) -> FunctionCall:
    return replace(call, name="TOPK", distinct=True)


_FORMS: dict[str, tuple[int, str, Callable[[FunctionCall], FunctionCall]]] = {
    "COUNT_IF": (1, "condition", _count_if),
    "COUNTIF": (1, "condition", _count_if),
    "REGR_COUNT": (2, "y, x", _regr_count),
    **dict.fromkeys(("APPROX_PERCENTILE", "APPROX_QUANTILE"), (2, "x, 0.9", _fraction_first)),
    "LATEST_BY_OFFSET": (1, "x", _not_null("LAST_VALUE")),
    **dict.fromkeys(("TOPK_DISTINCT", "TOPKDISTINCT"), (2, "x, k", _of_different)),
    "HISTOGRAM": (1, "x", _of_text),
    "EARLIEST_BY_OFFSET": (1, "x", _not_null("FIRST_VALUE")),
}
"""For each other name: the number of arguments, the arguments in messages, and the function for its aggregate."""
OTHER_NAMES = frozenset(_FORMS)


def aggregate_written_out(call: FunctionCall) -> FunctionCall:
    """Return the aggregate of an alias; return any other call unchanged.

    Raises:
      StatementError: the alias has another number of arguments, or DISTINCT.
    """
    form = _FORMS.get(call.name)
    if form is None:
        return call
    count, usage, write = form
    if call.star or call.distinct or len(call.args) != count:
        raise StatementError(f"{call.name} is written {call.name}({usage})", span=call.place)
    return write(call)


_LISTS = frozenset({"LISTAGG", "ARRAY_AGG"})


def value_order(
    grammar: AggregateGrammar, name: str, args: tuple[Expression, ...]
) -> tuple[tuple[Expression, ...], bool, tuple[OrderItem, ...]]:
    """Read ORDER BY of the values of an aggregate: return its arguments, whether they descend, and the order of a list.

    The value that a percentile or MODE orders by is its last argument.
    """
    cursor = grammar.cursor
    aggregate = SPELLED.get(name)
    lists = aggregate is not None and aggregate.name in _LISTS
    has_fraction = aggregate is not None and aggregate.takes_fraction and aggregate.sketch is None
    if not lists and not has_fraction and not (name == "MODE" and not args):
        raise cursor.unsupported(f"ORDER BY inside of {name} is")
    cursor.expect("ORDER", "BY")
    if lists:
        return args, False, cursor.comma_list(grammar.order_item)
    order = grammar.expression()
    if cursor.is_word("DESC") and not has_fraction:
        raise cursor.unsupported(f"DESC in {name} is")
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    return (*args, order), descending, ()
