"""The typed tree of a scalar expression: frozen, compared by value, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from rowtide.rows.types import OMITTED, TIMESTAMP, RowType, Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant in row form (see ``rows.types``); None is NULL."""

    value: object
    type: Type


@dataclass(frozen=True, slots=True)
class FieldRef:
    """Field ``index`` of the input row."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class RowtimeRef:
    """The ROWTIME of the input row."""

    type: Type = TIMESTAMP


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function or operator of ``expr.functions``, by its name there.

    ``AND``, ``OR``, ``CASE`` and ``COALESCE`` evaluate an argument only where the ones before it do
    not decide the result, so an error in an argument that is not evaluated does not count. ``CASE``
    has the arguments condition, value, condition, value, ..., otherwise.
    """

    function: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function in Python as CREATE FUNCTION declares it (docs/sql/functions.md).

    ``path`` is 'module:function'. It is called with NULL only if ``takes_null``. ``code`` is a digest of the
    text of its module: with another text it is another function. ``folder`` is where its module may be, on
    the machine that planned; it has no effect on rows.
    """

    name: str
    path: str
    takes: tuple[Type, ...]
    returns: Type
    takes_null: bool
    form: str
    code: str
    folder: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PythonCall(Call):
    """A call of a function in Python; the arguments have the types that it declares."""

    of: PythonFunction


@dataclass(frozen=True, slots=True)
class PythonAggregate:
    """An aggregate in Python as CREATE AGGREGATE FUNCTION declares it (docs/sql/functions.md).

    ``path`` is 'module:Class'. Rows with a NULL among their arguments are added only if ``takes_null``.
    ``retracts``: the class can remove rows. ``code`` and ``folder`` are as of a ``PythonFunction``.
    """

    name: str
    path: str
    takes: tuple[Type, ...]
    returns: Type
    takes_null: bool
    retracts: bool
    code: str
    folder: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PythonTable:
    """A table function in Python as CREATE FUNCTION .. RETURNS TABLE declares it (docs/sql/functions.md).

    ``path`` is 'module:Class'. Rows with a NULL among their arguments are added only if ``takes_null``.
    ``code`` and ``folder`` are as of a ``PythonFunction``.
    """

    name: str
    path: str
    takes: tuple[Type, ...]
    returns: RowType
    takes_null: bool
    code: str
    folder: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResultCall(Call):
    """The result of an aggregate in Python over its state, the one argument; NULL of NULL."""

    of: PythonAggregate


@dataclass(frozen=True, slots=True)
class BodyCall(Call):
    """A call of a function in SQL: ``body`` over the row of the arguments, each of which is computed once."""

    body: Expr


Expr = Literal | FieldRef | RowtimeRef | Call


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of ``operators.group.aggregates``, by name; ``argument`` None is COUNT(*).

    ``fraction`` is that of MEDIAN, PERCENTILE_CONT and PERCENTILE_DISC, from 0 to 1. ``of`` is an aggregate
    in Python: then the argument has all its arguments, and the value is its state (``ResultCall``). ``number``
    is the k of TOPK.
    """

    function: str
    argument: Expr | None
    type: Type
    distinct: bool = False
    condition: Expr | None = None
    ignore_nulls: bool = False
    fraction: Fraction | None = None
    of: PythonAggregate | None = field(default=None, metadata=OMITTED)
    number: int | None = field(default=None, metadata=OMITTED)


def fields_used(expr: Expr) -> frozenset[int]:
    """Return the input fields that an expression reads."""
    match expr:
        case FieldRef(index=index):
            return frozenset({index})
        case Call(args=args):
            return frozenset().union(*(fields_used(arg) for arg in args))
        case _:
            return frozenset()


def renumbered(expr: Expr, places: Mapping[int, int]) -> Expr:
    """Return the expression for rows with a subset of the fields: ``places`` maps old to new indices."""
    match expr:
        case FieldRef(index=index):
            return replace(expr, index=places[index])
        case Call(args=args):
            return replace(expr, args=tuple(renumbered(arg, places) for arg in args))
        case _:
            return expr


def uses_rowtime(expr: Expr) -> bool:
    """Return whether an expression reads ROWTIME."""
    match expr:
        case RowtimeRef():
            return True
        case Call(args=args):
            return any(uses_rowtime(arg) for arg in args)
        case _:
            return False


def calls_function(expr: Expr, function: str) -> bool:
    """Return whether an expression calls a function, by its name in ``expr.functions``."""
    if not isinstance(expr, Call):
        return False
    return expr.function == function or any(calls_function(arg, function) for arg in expr.args)
