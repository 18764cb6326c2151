"""Calls of scalar functions, and the functions whose calls are planned in a way of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from rowtide.errors import StatementError
from rowtide.expr.functions import callable_names
from rowtide.expr.functions.times.periods import RELATIONS, function_name
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import DOUBLE, TIMESTAMP, VARCHAR
from rowtide.sql.expressions.conversions import UNTYPED_NULL
from rowtide.sql.expressions.function_forms import WRITTEN_OUT, check_constants
from rowtide.sql.expressions.time_functions import (
    AGE,
    by_unit,
    date_bin,
    extract,
    from_epoch,
    period_predicate,
    whole_age,
)
from rowtide.sql.expressions.typed_calls import OperandPlanner, alike, call
from rowtide.sql.grammar.clauses.aggregate_forms import SIGNLESS
from rowtide.sql.grammar.syntax import FunctionCall

_SAME_AS = {"IFNULL": "COALESCE", "NVL": "COALESCE"}
_PARTS = {
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "DAYOFYEAR": "DOY",
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
}
"""YEAR(x) is EXTRACT(YEAR FROM x)."""


def function_call(planner: OperandPlanner, syntax: FunctionCall) -> Expr:
    """Return the typed call of a scalar function.

    Raises:
      StatementError: the function does not exist, or its arguments do not fit; with its place.
    """
    name, place = _SAME_AS.get(syntax.name, syntax.name), syntax.place
    if name in _OF_SYNTAX:
        return _OF_SYNTAX[name](planner, syntax)
    if name in _PARTS and len(syntax.args) == 1:
        return extract(_PARTS[name], planner.plan_as(syntax.args[0], TIMESTAMP), place)
    args = [planner.typed(each) for each in syntax.args[:1]]
    with planner.perhaps() if name == "COALESCE" else nullcontext():
        args += [planner.typed(each) for each in syntax.args[1:]]
    if name == "SUBSTRING" and len(args) > 1 and args[1] != UNTYPED_NULL and args[1].type.is_text:
        name = "REGEXP_SUBSTR" if len(args) == 2 else "SUBSTRING SIMILAR"
    check_constants(syntax, name, args)
    special = _OF_ARGS.get((name, len(args))) or _OF_ARGS.get((name, None))
    found = None if special is None else special(args, syntax)
    return call(name, args, place) if found is None else found


def _concat(args: Sequence[Expr], syntax: FunctionCall) -> Expr | None:
    if not args:
        return None
    place = syntax.place
    joined = args[0] if len(args) > 1 else call("||", [args[0], Literal("", VARCHAR)], place)
    for arg in args[1:]:
        joined = call("||", [joined, arg], place)
    return joined


def _coalesce(args: Sequence[Expr], syntax: FunctionCall) -> Expr | None:
    if not args:
        return None
    values = alike(args, [each.place for each in syntax.args], syntax.place)
    return Call("COALESCE", tuple(values), values[0].type)


def _log(args: Sequence[Expr], syntax: FunctionCall) -> Expr:
    del args
    raise StatementError(
        "LOG is written LOG(base, x)",
        span=syntax.place,
        hint="LN(x) is the natural logarithm, LOG10(x) the one to base 10.",
    )


def _signless(args: Sequence[Expr], syntax: FunctionCall) -> Expr:
    (value,) = args
    return call("+", [value, Literal(0.0, value.type)], syntax.place) if value.type.is_float else value


_OF_SYNTAX: dict[str, Callable[[OperandPlanner, FunctionCall], Expr]] = {
    "TIMESTAMPADD": by_unit,
    "TIMESTAMPDIFF": by_unit,
    "DATE_BIN": date_bin,
    AGE: whole_age,
}
"""Functions that are planned from the syntax of their arguments."""
_OF_ARGS: dict[tuple[str, int | None], Callable[[Sequence[Expr], FunctionCall], Expr | None]] = {
    ("LOG", 1): _log,
    ("PI", 0): lambda args, syntax: Literal(math.pi, DOUBLE),
    ("E", 0): lambda args, syntax: Literal(math.e, DOUBLE),
    ("TO_TIMESTAMP", 1): lambda args, syntax: from_epoch(args[0], syntax.place),
    ("TYPEOF", 1): lambda args, syntax: Literal(str(args[0].type), VARCHAR),
    ("CONCAT", None): _concat,
    ("COALESCE", None): _coalesce,
    (SIGNLESS, 1): _signless,
    **{(function_name(predicate), 4): period_predicate for predicate in RELATIONS},
}
"""Functions, for a number of arguments or any, that are planned from the types of their arguments."""
PLANNED_APART = frozenset({*_SAME_AS, *_PARTS, *_OF_SYNTAX, *(name for name, _ in _OF_ARGS)})
"""Names of functions that are planned here."""


def scalar_functions() -> frozenset[str]:
    """Return the names of all scalar functions that SQL writes as a name and parentheses."""
    planned = (name for name in WRITTEN_OUT | PLANNED_APART if name.isidentifier())
    return frozenset({*callable_names(), *planned})
