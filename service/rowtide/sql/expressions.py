"""Expressions: syntax -> the typed tree of ``rowtide.expr``.

BETWEEN is written as two comparisons, IN as several, CASE x WHEN as CASE WHEN.
Constant parts are computed once, here.

An untyped NULL takes the type of what stands beside it; where nothing says
which, it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from rowtide.errors import Place, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import cast_allowed, common_type, resolve
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.aggregates import (
    LATER,
    NEVER_DISTINCT,
    OF_GROUPS,
    ONLY_OVER,
    PERCENTILES,
    SPREADS,
    AggregateList,
    result_type,
)
from rowtide.sql.scope import ROWTIME, Scope
from rowtide.sql.syntax import (
    Between,
    Binary,
    BinaryLiteral,
    BooleanLiteral,
    Case,
    Cast,
    ColumnRef,
    Expression,
    Extract,
    FunctionCall,
    InList,
    InQuery,
    IsDistinct,
    IsTest,
    Like,
    Name,
    NullLiteral,
    NumberLiteral,
    Rounded,
    Stepped,
    StringLiteral,
    TypedLiteral,
    Unary,
)
from rowtide.sql.syntax_walk import calls_in

UNTYPED_NULL = Literal(None, Type(Kind.VARCHAR, -1))
"""NULL of which nothing has said the type yet; never in a finished tree."""

GROUP_WINDOWS = frozenset({"TUMBLE", "HOP", "SESSION"})
"""What cuts groups by time, in GROUP BY only."""
WINDOW_EDGES = frozenset(f"{name}_{edge}" for name in GROUP_WINDOWS for edge in ("START", "END"))
"""The edges of the window that GROUP BY names, in the select list and HAVING."""

_WINDOW_HINT = (
    "GROUP BY TUMBLE(ROWTIME, ..) makes groups; TUMBLE_START(ROWTIME, ..) and TUMBLE_END(..) are its edges."
)
_SAME_AS = {"IFNULL": "COALESCE", "NVL": "COALESCE"}
_PARTS = {
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "DAYOFYEAR": "DOY",
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
}
"""YEAR(x) is EXTRACT(YEAR FROM x)."""
_UNIT_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "MILLISECOND": 1}
_UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_CLOCKS = ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME")


class ExpressionPlanner:
    """Resolves and types expressions over the rows of one scope.

    ``clause`` names where the expression stands, for the message that refuses an aggregate there.
    """

    def __init__(self, scope: Scope, clause: str) -> None:
        self._scope = scope
        self._clause = clause

    def plan(self, syntax: Expression) -> Expr:
        """Give the typed tree of ``syntax``; an untyped NULL is refused.

        Raises:
          StatementError: a name or function does not exist, or types do not fit; with its place.
        """
        typed = self._plan(syntax)
        if typed == UNTYPED_NULL:
            raise StatementError(
                "NULL has no type here", place=syntax.place, hint="Write CAST(NULL AS type)."
            )
        return typed

    def plan_as(self, syntax: Expression, wanted: Type) -> Expr:
        """Give the typed tree of ``syntax``; an untyped NULL is one of type ``wanted``."""
        typed = self._plan(syntax)
        return Literal(None, wanted) if typed == UNTYPED_NULL else fold(typed)

    def condition(self, syntax: Expression) -> Expr:
        """Give the typed tree of a condition.

        Raises:
          StatementError: it is not BOOLEAN.
        """
        typed = self.plan_as(syntax, BOOLEAN)
        if typed.type.kind is not Kind.BOOLEAN:
            raise _no_condition(typed, syntax.place)
        return typed

    # ---------------------------------------------------------------- nodes

    def _plan(self, syntax: Expression) -> Expr:
        match syntax:
            case ColumnRef():
                return self._column(syntax)
            case NumberLiteral():
                return _number(syntax)
            case StringLiteral(text=text):
                return Literal(text, replace(VARCHAR, precision=max(1, len(text))))
            case BinaryLiteral(value=held):
                return Literal(held, Type(Kind.VARBINARY, max(1, len(held))))
            case BooleanLiteral(value=value):
                return Literal(value, BOOLEAN)
            case NullLiteral():
                return UNTYPED_NULL
            case TypedLiteral(value=value, type=of):
                return Literal(value, of)
            case Unary():
                return self._unary(syntax)
            case Binary(operator="AND" | "OR"):
                return self._connected(syntax)
            case Binary(operator=operator, left=left, right=right, place=place):
                return self._call(operator, [self._plan(left), self._plan(right)], place)
            case IsTest():
                return self._is_test(syntax)
            case IsDistinct():
                return self._is_distinct(syntax)
            case Between():
                return self._between(syntax)
            case InList():
                return self._in_list(syntax)
            case InQuery(place=place):
                raise StatementError(
                    "IN with a query stands in WHERE, alone or with AND, without NOT",
                    place=place,
                    hint="A LEFT JOIN and IS NULL finds what is not there.",
                )
            case Like():
                return self._like(syntax)
            case Case():
                return self._case(syntax)
            case Cast(operand=operand, type=of, place=place):
                return self._cast(self.plan_as(operand, of), of, place)
            case Rounded():
                return self._rounded(syntax)
            case Stepped():
                return self._stepped(syntax)
            case Extract(unit=unit, operand=operand, place=place):
                return self._call("EXTRACT", [unit_literal(unit), self.plan(operand)], place)
            case FunctionCall():
                return self._function(syntax)

    def _column(self, syntax: ColumnRef) -> Expr:
        return self._scope.resolve(syntax)

    def _unary(self, syntax: Unary) -> Expr:
        operand = self._plan(syntax.operand)
        if syntax.operator == "NOT":
            return self._call("NOT", [operand], syntax.place)
        negated = self._call("NEGATE", [operand], syntax.place)
        return negated if syntax.operator == "-" else operand

    def _connected(self, syntax: Binary) -> Expr:
        """Plan a chain of ANDs or ORs as one call, so that a long one is not a deep one."""
        operands: list[Expression] = []
        pending: list[Expression] = [syntax]
        while pending:
            each = pending.pop()
            if isinstance(each, Binary) and each.operator == syntax.operator:
                pending += [each.right, each.left]
            else:
                operands.append(each)
        return Call(syntax.operator, tuple(self.condition(each) for each in operands), BOOLEAN)

    def _is_test(self, syntax: IsTest) -> Expr:
        operand = self.plan_as(syntax.operand, BOOLEAN)
        if syntax.test != "NULL" and operand.type != BOOLEAN:
            raise _no_condition(operand, syntax.operand.place)
        test = "NULL" if syntax.test == "UNKNOWN" else syntax.test
        return self._call(f"IS {'NOT ' if syntax.negated else ''}{test}", [operand], syntax.place)

    def _is_distinct(self, syntax: IsDistinct) -> Expr:
        operands = [self._plan(syntax.left), self._plan(syntax.right)]
        return self._call(f"IS {'NOT ' if syntax.negated else ''}DISTINCT FROM", operands, syntax.place)

    def _between(self, syntax: Between) -> Expr:
        operand, low, high = (self._plan(each) for each in (syntax.operand, syntax.low, syntax.high))
        above = self._call(">=", [operand, low], syntax.place)
        below = self._call("<=", [operand, high], syntax.place)
        return self._negate(Call("AND", (above, below), BOOLEAN), syntax.negated)

    def _in_list(self, syntax: InList) -> Expr:
        operand = self._plan(syntax.operand)
        equals = [self._call("=", [operand, self._plan(item)], item.place) for item in syntax.items]
        found = equals[0] if len(equals) == 1 else Call("OR", tuple(equals), BOOLEAN)
        return self._negate(found, syntax.negated)

    def _like(self, syntax: Like) -> Expr:
        args = [self.plan_as(syntax.operand, VARCHAR), self.plan_as(syntax.pattern, VARCHAR)]
        if syntax.escape is not None:
            args.append(self.plan(syntax.escape))
        return self._negate(self._call(syntax.operator, args, syntax.place), syntax.negated)

    def _case(self, syntax: Case) -> Expr:
        conditions = []
        if syntax.operand is None:
            conditions = [self.condition(condition) for condition, _ in syntax.branches]
        else:
            operand = self._plan(syntax.operand)
            for value, _ in syntax.branches:
                conditions.append(self._call("=", [operand, self._plan(value)], value.place))
        places = [value.place for _, value in syntax.branches]
        values = [self._plan(value) for _, value in syntax.branches]
        values.append(UNTYPED_NULL if syntax.otherwise is None else self._plan(syntax.otherwise))
        places.append(syntax.place if syntax.otherwise is None else syntax.otherwise.place)
        values = self._alike(values, places, syntax.place)
        args = [each for pair in zip(conditions, values, strict=False) for each in pair]
        return Call("CASE", (*args, values[-1]), values[-1].type)

    def _rounded(self, syntax: Rounded) -> Expr:
        operand = self.plan(syntax.operand)
        return self._call(f"{syntax.function}_TO", [operand, unit_literal(syntax.unit.value)], syntax.place)

    def _stepped(self, syntax: Stepped) -> Expr:
        operand = self.plan(syntax.operand)
        length = step_ms(self, syntax)
        return self._call("STEP", [operand, length], syntax.place)

    # ------------------------------------------------------------ functions

    def _function(self, syntax: FunctionCall) -> Expr:
        name, place = syntax.name, syntax.place
        if syntax.over is not None:
            return self._over(syntax)
        if name in OF_GROUPS:
            return self._aggregate(syntax)
        if syntax.ignore_nulls:
            raise StatementError(f"{name} takes no IGNORE NULLS", place=place)
        if name in LATER:
            raise StatementError(f"aggregate {name} is not supported yet", place=place)
        if name in ONLY_OVER:
            raise StatementError(
                f"{name} needs a window", place=place, hint=f"Write {name}(..) OVER (PARTITION BY ..)."
            )
        if name in GROUP_WINDOWS:
            raise StatementError(f"{name} cannot stand in {self._clause}", place=place, hint=_WINDOW_HINT)
        if name in WINDOW_EDGES:
            raise StatementError(
                f"{name} needs {name.partition('_')[0]} in GROUP BY", place=place, hint=_WINDOW_HINT
            )
        if name in _CLOCKS:
            raise StatementError(
                f"{name} is not supported: results depend on the data alone",
                place=place,
                hint="ROWTIME is the time of the row.",
            )
        if syntax.star or syntax.distinct or syntax.condition is not None:
            raise StatementError(f"{name} is no aggregate", place=place)
        if name == "CURRENT_ROW_TIMESTAMP" and not syntax.args:
            return self._column(ColumnRef((Name(ROWTIME, place),), place))
        if name in ("TIMESTAMPADD", "TIMESTAMPDIFF"):
            return self._by_unit(syntax)
        args = [self._plan(each) for each in syntax.args]
        name = _SAME_AS.get(name, name)
        if name in _PARTS and len(args) == 1:
            return self._call("EXTRACT", [unit_literal(_PARTS[name]), *args], place)
        if name == "PI" and not args:
            return Literal(math.pi, DOUBLE)
        if name == "CONCAT" and len(args) > 1:
            joined = args[0]
            for arg in args[1:]:
                joined = self._call("||", [joined, arg], place)
            return joined
        if name == "COALESCE" and args:
            values = self._alike(args, [each.place for each in syntax.args], place)
            return Call("COALESCE", tuple(values), values[0].type)
        return self._call(name, args, place)

    def _by_unit(self, syntax: FunctionCall) -> Expr:
        """Plan TIMESTAMPADD(unit, n, x), or TIMESTAMPDIFF(unit, x, y) in whole units, towards zero."""
        name, place = syntax.name, syntax.place
        unit = syntax.args[0] if syntax.args else None
        word = unit.parts[0].text if isinstance(unit, ColumnRef) and len(unit.parts) == 1 else ""
        known = _UNIT_MS if name == "TIMESTAMPDIFF" else {**_UNIT_MS, **_UNIT_MONTHS}
        if word not in known or len(syntax.args) != 3:
            wanted = "n, x" if name == "TIMESTAMPADD" else "x, y"
            raise StatementError(
                f"{name} is written {name}(unit, {wanted})", place=place, hint=f"Units: {', '.join(known)}."
            )
        first, second = (self._plan(each) for each in syntax.args[1:])
        if name == "TIMESTAMPDIFF":
            return self._call(
                "/", [self._call("TSDIFF", [first, second], place), _whole(_UNIT_MS[word])], place
            )
        one = Literal(known[word], INTERVAL_DAY if word in _UNIT_MS else INTERVAL_MONTH)
        return self._call("+", [second, self._call("*", [one, first], place)], place)

    def _aggregate(self, syntax: FunctionCall) -> Expr:
        raise StatementError(f"an aggregate cannot stand in {self._clause}", place=syntax.place)

    def _over(self, syntax: FunctionCall) -> Expr:
        raise StatementError(f"a window (OVER) cannot stand in {self._clause}", place=syntax.place)

    def _cast(self, operand: Expr, of: Type, place: Place) -> Expr:
        if operand.type == of:
            return operand
        if isinstance(operand, Literal) and operand.value is None:
            return Literal(None, of)
        return cast(operand, of, place)

    def _negate(self, expr: Expr, negated: bool) -> Expr:
        return Call("NOT", (expr,), BOOLEAN) if negated else expr

    def _alike(self, values: Sequence[Expr], places: Sequence[Place], place: Place) -> list[Expr]:
        """Cast values to their common type; untyped NULLs take it."""
        typed = [value.type for value in values if value != UNTYPED_NULL]
        if not typed:
            raise StatementError("NULL has no type here", place=place, hint="Write CAST(NULL AS type).")
        of = _guarded(lambda: common_type(typed), place)
        return [
            Literal(None, of) if value == UNTYPED_NULL else self._cast(value, of, at)
            for value, at in zip(values, places, strict=True)
        ]

    def _call(self, name: str, args: Sequence[Expr], place: Place) -> Call:
        """Give the call of an operator or function, typed; untyped NULLs take a neighbour's type."""
        known = next((arg.type for arg in args if arg != UNTYPED_NULL), BOOLEAN)
        whole = tuple(Literal(None, known) if arg == UNTYPED_NULL else arg for arg in args)
        of = _guarded(lambda: resolve(name, tuple(arg.type for arg in whole)), place)
        return Call(name, whole, of)


def _whole(value: int) -> Literal:
    return Literal(value, BIGINT)


def unit_literal(unit: str) -> Literal:
    """Give the name of a unit as the argument of FLOOR_TO, CEIL_TO or EXTRACT."""
    return Literal(unit, replace(VARCHAR, precision=len(unit)))


def step_ms(planner: ExpressionPlanner, syntax: Stepped) -> Literal:
    """Give the length of a STEP.

    Raises:
      StatementError: it is no constant interval of days to seconds above zero.
    """
    length = planner.plan(syntax.interval)
    fits = isinstance(length, Literal) and length.type.kind is Kind.INTERVAL_DAY
    if not (fits and isinstance(length, Literal) and isinstance(length.value, int) and length.value > 0):
        raise StatementError(
            "STEP takes an interval of days to seconds above zero",
            place=syntax.interval.place,
            hint="Write STEP(ROWTIME BY INTERVAL '5' MINUTE).",
        )
    return length


def cast(operand: Expr, of: Type, place: Place) -> Expr:
    """Give CAST(operand AS of); of a constant that can be cast, the constant.

    A field of text that any value of fits is the same field of the wider type: nothing is computed.

    Raises:
      StatementError: there is no such CAST.
    """
    _guarded(lambda: resolve("CAST", (operand.type, of)), place)
    if isinstance(operand, FieldRef) and _holds_all(of, operand.type):
        return replace(operand, type=of)
    return fold(Call("CAST", (operand,), of))


def assign(operand: Expr, of: Type, what: str, place: Place) -> Expr:
    """Give ``operand`` as it is stored in a column of type ``of``; ``what`` names the column.

    Numbers go into numbers and text into text (a CAST at run time rejects what does not fit),
    DATE into TIMESTAMP; everything else wants a CAST that the user writes.

    Raises:
      StatementError: the types do not go together.
    """
    if operand == UNTYPED_NULL:
        return Literal(None, of)
    if operand.type == of:
        return operand
    source = operand.type
    assignable = (
        (source.is_numeric and of.is_numeric)
        or (source.is_text and of.is_text)
        or (source.is_binary and of.is_binary)
        or (source.kind is Kind.DATE and of.kind is Kind.TIMESTAMP)
        or source.kind is of.kind
    )
    if not assignable:
        raise StatementError(
            f"{what} is {of}, the value is {source}",
            place=place,
            hint=f"CAST(.. AS {of}) converts it." if cast_allowed(source, of) else None,
        )
    return cast(operand, of, place)


class GroupedPlanner(ExpressionPlanner):
    """Plans the select list and HAVING of a grouped query, over the group's row.

    ``groups`` maps what GROUP BY computes from an input row to the field of the group's row that
    holds it. ROWTIME is that of the group's row: the end of its period, or, ``exact``, that of
    all its rows. ``edges`` gives what TUMBLE_START and its like are of the group's row, ``over`` what a
    window function over groups is.
    """

    def __init__(
        self,
        scope: Scope,
        clause: str,
        groups: dict[Expr, FieldRef],
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

    def _plan(self, syntax: Expression) -> Expr:
        if isinstance(syntax, FunctionCall) and syntax.name in WINDOW_EDGES:
            return self._edges(syntax)
        if isinstance(syntax, ColumnRef | Rounded | Stepped) or not _is_constant_or_aggregate(syntax):
            group = self._groups.get(fold(ExpressionPlanner(self._scope, self._clause)._plan(syntax)))
            if group is not None:
                return group
        return super()._plan(syntax)

    def _column(self, syntax: ColumnRef) -> Expr:
        typed = super()._column(syntax)
        if isinstance(typed, RowtimeRef):
            return typed
        name = ".".join(part.text for part in syntax.parts)
        raise StatementError(
            f'column "{name}" is neither a term of GROUP BY nor in an aggregate', place=syntax.place
        )

    def _rounded(self, syntax: Rounded) -> Expr:
        self._refuse_other_period(syntax)
        return super()._rounded(syntax)

    def _stepped(self, syntax: Stepped) -> Expr:
        self._refuse_other_period(syntax)
        return super()._stepped(syntax)

    def _refuse_other_period(self, syntax: Rounded | Stepped) -> None:
        """Refuse FLOOR(ROWTIME TO ..) that is not the period of the group: it would be of its end."""
        if not self._exact and isinstance(self.plan(syntax.operand), RowtimeRef):
            raise StatementError(
                "this period of ROWTIME is not the one in GROUP BY",
                place=syntax.place,
                hint="ROWTIME alone is the group's: the end of its period.",
            )

    def _over(self, syntax: FunctionCall) -> Expr:
        return super()._over(syntax) if self._window_call is None else self._window_call(syntax)

    def _aggregate(self, syntax: FunctionCall) -> Expr:
        inner = ExpressionPlanner(self._scope, "an aggregate")
        name, place = SPREADS.get(syntax.name, syntax.name), syntax.place
        argument, fraction = None, None
        args = syntax.args
        if name == "MEDIAN":
            fraction = Fraction(1, 2)
        elif name in PERCENTILES and not syntax.star:
            if len(args) != 2:
                raise StatementError(f"{name} is written {name}(0.9) WITHIN GROUP (ORDER BY x)", place=place)
            fraction, args = _fraction(inner.plan(args[0]), name, args[0].place), args[1:]
        if syntax.star:
            if name != "COUNT":
                raise StatementError(f"{syntax.name}(*) has no meaning", place=place)
        elif len(args) != 1:
            raise StatementError(f"{syntax.name} takes one argument", place=place)
        else:
            argument = inner.plan(args[0])
        if syntax.ignore_nulls and name not in ("FIRST_VALUE", "LAST_VALUE"):
            raise StatementError(f"{syntax.name} never counts NULLs", place=place)
        condition = None if syntax.condition is None else inner.condition(syntax.condition)
        of = result_type(name, argument.type if argument is not None else None, place)
        distinct = syntax.distinct and name not in NEVER_DISTINCT
        call = AggregateCall(name, argument, of, distinct, condition, syntax.ignore_nulls, fraction)
        return self._aggregates.reference(call)


def _fraction(typed: Expr, name: str, place: Place) -> Fraction:
    """Give the fraction of a percentile.

    Raises:
      StatementError: it is no constant from 0 to 1.
    """
    value = typed.value if isinstance(typed, Literal) else None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and 0 <= value <= 1:
        return Fraction(value)
    raise StatementError(f"{name} takes a constant from 0 to 1", place=place)


def has_aggregate(syntax: Expression) -> bool:
    """Tell whether an aggregate stands in ``syntax``."""
    return any(each.over is None and each.name in OF_GROUPS | LATER for each in calls_in(syntax))


def _is_constant_or_aggregate(syntax: Expression) -> bool:
    literal = NumberLiteral | StringLiteral | BinaryLiteral | BooleanLiteral | NullLiteral | TypedLiteral
    calls = list(calls_in(syntax))
    special = any(each.over is not None or each.name in OF_GROUPS | LATER | WINDOW_EDGES for each in calls)
    return special or isinstance(syntax, literal)


def _number(syntax: NumberLiteral) -> Literal:
    """Give a number: INTEGER or BIGINT if it is whole, DECIMAL with a point, DOUBLE with an exponent."""
    text = syntax.text
    if "E" in text.upper():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise StatementError(f"{text} is too large for a DOUBLE", place=syntax.place)
        return Literal(value, DOUBLE)
    whole, point, fraction = text.partition(".")
    if not point:
        number = int(text) if len(text) <= 4_000 else 10**4_000
        for of in (INTEGER, BIGINT):
            if number < 2 ** (31 if of is INTEGER else 63):
                return Literal(number, of)
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > MAX_DECIMAL_PRECISION:
        raise StatementError(
            f"the number has {digits} digits, {MAX_DECIMAL_PRECISION} are possible", place=syntax.place
        )
    return Literal(Decimal(text), decimal(max(1, digits, len(fraction)), len(fraction)))


def _no_condition(expr: Expr, place: Place) -> StatementError:
    return StatementError(f"a condition is BOOLEAN, this is {expr.type}", place=place)


def _holds_all(wide: Type, narrow: Type) -> bool:
    """Tell whether text of type ``narrow`` is, as it stands, text of type ``wide``."""
    if wide.kind is not narrow.kind or wide.kind not in (Kind.VARCHAR, Kind.VARBINARY):
        return False
    if wide.precision is None or narrow.precision is None:
        return wide.precision is None
    return narrow.precision <= wide.precision


def _guarded(work: Callable[[], Type], place: Place) -> Type:
    """Run a type rule, and give its refusal a place."""
    try:
        return work()
    except StatementError as error:
        if error.place is None:
            error.place = place
        raise
