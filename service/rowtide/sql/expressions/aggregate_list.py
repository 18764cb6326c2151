"""The aggregates of a grouped query, and other terms of GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.aggregates import AGGREGATES, SPELLED, Aggregate
from rowtide.expr.constant import fold
from rowtide.expr.functions import resolve
from rowtide.expr.functions.ordered import ORDERED, letter
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.types import INTEGER, VARCHAR, Type
from rowtide.sql.expressions.conversions import cast
from rowtide.sql.expressions.keys import check_key, check_order
from rowtide.sql.grammar.syntax import Expression, FunctionCall


class ArgumentPlanner(Protocol):
    """Plans the arguments of an aggregate."""

    def plan(self, syntax: Expression) -> Expr:
        """Return the typed tree of an argument."""


LATER = frozenset({"NTH_VALUE", "COLLECT"})
"""Aggregates that are not supported yet."""
GROUP_WINDOWS = frozenset({"TUMBLE", "HOP", "CUMULATE", "SESSION"})
"""Functions that define periods, only in GROUP BY."""
WINDOW_EDGES = frozenset(f"{name}_{edge}" for name in GROUP_WINDOWS for edge in ("START", "END"))
"""Functions in the select list and HAVING that return the edges of the window of GROUP BY."""


_OF_JSON = frozenset(
    (
        "JSON_ARRAYAGG",
        "JSON_OBJECTAGG",
        "COUNT",
        "ANY_VALUE",
        "FIRST_VALUE",
        "LAST_VALUE",
        "NTH_VALUE",
        "LAG",
        "LEAD",
    )
)
"""Aggregates that neither compare values nor compute with them."""


_ORDERED = frozenset(
    {"MIN", "MAX", *(each.name for each in AGGREGATES.values() if each.ascending or each.takes_fraction)}
)
"""Aggregates that compare values by their order."""


def result_type(function: str, argument: Type | None, span: SourceSpan) -> Type:
    """Return the type of an aggregate's result (docs/sql/semantics.md#numbers).

    Raises:
      StatementError: the aggregate does not take this type.
    """
    if argument is None and function != "COUNT":
        raise StatementError(f"{function} takes one argument", span=span)
    if function not in _OF_JSON and argument is not None:
        (check_order if function in _ORDERED else check_key)(argument, f"the argument of {function}", span)
    found = AGGREGATES[function].result(argument)
    if found is None:
        hint = "CAST(x AS INTEGER) converts text." if argument is not None and argument.is_text else None
        raise StatementError(f"{function} does not take {argument}", span=span, hint=hint)
    return found


def paired(planner: ArgumentPlanner, syntax: FunctionCall) -> tuple[Expr, Type]:
    """Return the two arguments of an aggregate as one argument for the plan, and the type of the first.

    Raises:
      StatementError: the number of arguments is not two, or their types do not fit.
    """
    aggregate, place = SPELLED[syntax.name], syntax.place
    if len(syntax.args) != 2:
        raise StatementError(f"{syntax.name} is written {' or '.join(aggregate.written)}", span=place)
    args = tuple(planner.plan(each) for each in syntax.args)
    if aggregate.pair_of == "$NUMBERS" and not all(each.type.is_numeric for each in args):
        given = ", ".join(str(each.type) for each in args)
        raise StatementError(f"{syntax.name} takes two numbers, not ({given})", span=place)
    if aggregate.pair_of == "$BY":
        check_order(args[1].type, f"the second argument of {syntax.name}", syntax.args[1].place)
    name = aggregate.pair_of or ""
    return Call(name, args, resolve(name, [each.type for each in args])), args[0].type


def unpaired(found: Expr, of: Type, aggregate: Aggregate) -> Expr:
    """Return the result of an aggregate of pairs; for MAX_BY and MIN_BY the value, which has type ``of``."""
    return Call("$VALUE", (found,), of) if aggregate.pair_of == "$BY" else found


def number_of(typed: Expr, syntax: FunctionCall) -> int:
    """Return the number that an aggregate is written with, its second argument.

    Raises:
      StatementError: it is not a constant from 1 to the most.
    """
    most = SPELLED[syntax.name].takes_number or 0
    value = typed.value if isinstance(typed, Literal) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise StatementError(
            f"{syntax.name} takes a constant number from 1 to {most}", span=syntax.args[1].place
        )
    return value


@dataclass(frozen=True, slots=True)
class Listed:
    """The plan of LISTAGG: each value follows the separator, and the first separator is removed in the end."""

    function: str
    argument: Expr
    width: int

    def result(self, whole: Expr) -> Expr:
        """Return the list of what the aggregate returns."""
        if not self.width:
            return whole
        return Call("SUBSTRING", (whole, Literal(self.width + 1, INTEGER)), VARCHAR)


def listed_argument(planner: ArgumentPlanner, syntax: FunctionCall) -> Listed:
    """Return the plan of LISTAGG.

    Raises:
      StatementError: the separator is not constant, or the values have no such order.
    """
    place, args = syntax.place, syntax.args
    if syntax.star or not 1 <= len(args) <= 2:
        raise StatementError(f"{syntax.name} is written {syntax.name}(x, ', ' [ORDER BY y])", span=place)
    value = planner.plan(args[0])
    separator = planner.plan(args[1]) if len(args) > 1 else Literal("", VARCHAR)
    if not isinstance(separator, Literal) or not isinstance(separator.value, str):
        raise StatementError(f"the separator of {syntax.name} must be constant text", span=args[1].place)
    order = values_order(planner, syntax, value)
    text = value if value.type.is_text else cast(value, VARCHAR, args[0].place)
    width = len(separator.value)
    if width:
        text = fold(Call("||", (separator, text), VARCHAR))
    if order is not None and not (value.type.is_text and order.is_ascending(value)):
        return Listed("ORDERED_LISTAGG", order.pair(text), width)
    return Listed("LISTAGG" if order is None else "SORTED_LISTAGG", text, width)


@dataclass(frozen=True, slots=True)
class ValuesOrder:
    """The order of the values of a list that is not that of the rows: its keys, and how each is sorted."""

    keys: tuple[Expr, ...]
    letters: str

    def is_ascending(self, value: Expr) -> bool:
        """Return whether it is the value itself, in ascending order."""
        return self.keys == (value,) and self.letters == "a"

    def pair(self, text: Expr) -> Expr:
        """Return a text, or JSON, with its keys."""
        args = (Literal(self.letters, VARCHAR), text, *self.keys)
        return fold(Call(ORDERED, args, resolve(ORDERED, [each.type for each in args])))


def values_order(planner: ArgumentPlanner, syntax: FunctionCall, value: Expr) -> ValuesOrder | None:
    """Return the order of the values of a list; None for that of the rows.

    Raises:
      StatementError: a key has no order, or values that count once are sorted by something else.
    """
    keys = tuple(planner.plan(item.expression) for item in syntax.order)
    letters = "".join(
        letter(
            descending=item.descending,
            nulls_first=item.descending if item.nulls_first is None else item.nulls_first,
        )
        for item in syntax.order
    )
    if not keys or (keys == (RowtimeRef(),) and letters == "a"):
        return None
    for key, item in zip(keys, syntax.order, strict=True):
        check_order(key.type, f"a term of ORDER BY in {syntax.name}", item.place)
        if syntax.distinct and key != value:
            raise StatementError(
                f"{syntax.name}(DISTINCT) can order by the value itself only",
                span=item.place,
                hint="Remove DISTINCT, or the term of ORDER BY: it may differ for equal values.",
            )
    return ValuesOrder(keys, letters)


def star_of_groups(span: SourceSpan) -> StatementError:
    """Return the error for * in the select list of a grouped query."""
    hint = "List terms of GROUP BY and aggregates."
    return StatementError("* is not allowed in a grouped query", span=span, hint=hint)


class AggregateList:
    """The aggregates that one grouped query needs, each once.

    They are the fields of the group's row from ``first`` on, in the order of their first use.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.calls: list[AggregateCall] = []

    def reference(self, call: AggregateCall) -> FieldRef:
        """Return the field of the group's row for ``call``; add it if it is new."""
        if call not in self.calls:
            self.calls.append(call)
        return FieldRef(self._first + self.calls.index(call), call.type)
