"""Expressions: syntax -> the typed tree of ``rowtide.expr``.

BETWEEN is written as two comparisons, IN as several, CASE x WHEN as CASE WHEN.
Constant parts are computed once, here.

An untyped NULL gets the type of its neighbor. Without a neighbor it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.aggregates import OF_GROUPS, ONLY_OVER
from rowtide.expr.constant import fold
from rowtide.expr.functions import FUNCTIONS, common_type, resolve
from rowtide.expr.functions.function import mismatch
from rowtide.expr.functions.times.times import ROUNDED_TO, UNITS
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.grammar import habits
from rowtide.sql.grammar.literals import interval_in_words
from rowtide.sql.grammar.syntax import (
    LENGTH_UNITS,
    Between,
    Binary,
    BinaryLiteral,
    BooleanLiteral,
    Case,
    Cast,
    ColumnRef,
    Exists,
    Expression,
    Extract,
    FunctionCall,
    InList,
    InQuery,
    IntervalFields,
    IsDistinct,
    IsTest,
    Like,
    NullLiteral,
    NumberLiteral,
    Quantified,
    Rounded,
    ScalarQuery,
    Stepped,
    StringLiteral,
    TypedLiteral,
    Unary,
)
from rowtide.sql.group.aggregates import GROUP_WINDOWS, LATER, WINDOW_EDGES
from rowtide.sql.select.conversions import UNTYPED_NULL, cast, guarded, with_typed_nulls
from rowtide.sql.select.function_forms import CLOCKS, check_constants, check_pattern, written_out
from rowtide.sql.select.scope import NameScope

_WINDOW_HINT = (
    "GROUP BY TUMBLE(ROWTIME, ..) makes groups; TUMBLE_START(ROWTIME, ..) and TUMBLE_END(..) are its edges."
)
_BIN = "Write DATE_BIN(INTERVAL '15' MINUTE, x, TIMESTAMP '2024-01-01 00:00:00')."
_OF_AGGREGATES = {
    "WHERE": "HAVING judges groups: HAVING COUNT(*) > 1.",
    "GROUP BY": "GROUP BY takes terms of a row; a number is the place of one in the select list.",
    "an aggregate": "Aggregate twice: SELECT SUM(c) FROM (SELECT COUNT(*) AS c FROM .. GROUP BY ..) GROUP BY ..",
}
_CONSTANTS = {"PI": math.pi, "E": math.e}
_SAME_AS = {"IFNULL": "COALESCE", "NVL": "COALESCE"}
_PARTS = {
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "DAYOFYEAR": "DOY",
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
}
"""YEAR(x) is EXTRACT(YEAR FROM x)."""
_UNIT_MS = {
    "WEEK": 604_800_000,
    **{"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "MILLISECOND": 1},
}
_UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


class ExpressionPlanner:
    """Resolves and types expressions over the rows of one scope.

    ``clause`` is the clause of the expression, for the message that refuses an aggregate there.
    """

    def __init__(self, scope: NameScope, clause: str) -> None:
        self._scope = scope
        self._clause = clause

    def plan(self, syntax: Expression) -> Expr:
        """Return the typed tree of ``syntax``; an untyped NULL is refused.

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
        """Return the typed tree of ``syntax``; an untyped NULL gets type ``wanted``."""
        typed = self._plan(syntax)
        return Literal(None, wanted) if typed == UNTYPED_NULL else fold(typed)

    def condition(self, syntax: Expression) -> Expr:
        """Return the typed tree of a condition.

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
            case (
                InQuery(place=place)
                | Quantified(place=place)
                | Exists(place=place)
                | ScalarQuery(place=place)
            ):
                raise StatementError(
                    f"a sub-query is not allowed in {self._clause}",
                    place=place,
                    hint="WHERE and the select list take one. Groups go into FROM (..) of another query.",
                )
            case Like():
                return self._like(syntax)
            case Case():
                return self._case(syntax)
            case Cast(operand=operand, type=of, interval=IntervalFields() as fields):
                return self._cast_to_interval(syntax, self.plan_as(operand, of), fields)
            case Cast(operand=operand, type=of, place=place, tried=tried):
                cast_to = self._try_cast if tried else self._cast
                unit = _unit_of(operand)
                if unit is not None and of.is_integer:
                    return cast_to(self._counted(self._plan(operand), unit, place), of, place)
                return cast_to(self.plan_as(operand, of), of, place)
            case Rounded():
                return self._rounded(syntax)
            case Stepped():
                return self._stepped(syntax)
            case Extract(unit=unit, operand=operand, place=place):
                return self._extract(unit, self.plan_as(operand, TIMESTAMP), place)
            case FunctionCall():
                return self._function(syntax)

    def _column(self, syntax: ColumnRef) -> Expr:
        return self._scope.resolve(syntax)

    def _unary(self, syntax: Unary) -> Expr:
        if syntax.operator == "-" and syntax.operand == NumberLiteral(str(2**63)):
            # The least BIGINT, which does not fit without its sign.
            return Literal(-(2**63), BIGINT)
        operand = self._plan(syntax.operand)
        if syntax.operator == "NOT":
            return self._call("NOT", [operand], syntax.place)
        if syntax.operator == "TO" or syntax.operator in LENGTH_UNITS:
            if operand.type != INTERVAL_DAY:
                raise StatementError(
                    f"a unit is allowed after a difference of times only, not after {operand.type}",
                    place=syntax.place,
                    hint=f"AS {syntax.operator} makes it the name of a column.",
                )
            return operand
        if syntax.operator == "~":
            return self._call("~", [operand], syntax.place)
        negated = self._call("NEGATE", [operand], syntax.place)
        return negated if syntax.operator == "-" else operand

    def _counted(self, length: Expr, unit: int, place: SourceSpan) -> Expr:
        """Plan the whole units of an interval, truncated toward zero: ``CAST((x - y) MINUTE AS INTEGER)``."""
        return self._call("/", [self._cast(length, BIGINT, place), _whole(unit)], place)

    def _cast_to_interval(self, syntax: Cast, operand: Expr, fields: IntervalFields) -> Expr:
        """Plan CAST(x AS INTERVAL HOUR): an integer counts the unit; other values lose their smaller parts."""
        of, place = syntax.type, syntax.place
        cast_to = self._try_cast if syntax.tried else self._cast
        if operand.type.is_integer and fields.unit is not None:
            if syntax.tried:
                raise StatementError(
                    "TRY_CAST of a number to a unit is not supported",
                    place=place,
                    hint="Write x * INTERVAL '1' HOUR.",
                )
            found: Expr = self._call("*", [operand, Literal(fields.unit, of)], place)
        else:
            found = cast_to(operand, of, place)
            if fields.least > 1:
                cut = self._counted(found, fields.least, place)
                found = self._call("*", [cut, Literal(fields.least, of)], place)
        if fields.digits is None:
            return found
        # A count of the first unit with more digits than its precision is OVERFLOW.
        count = cast_to(self._counted(found, fields.first, place), decimal(fields.digits), place)
        fits = self._call("IS NOT NULL", [count], place)
        return Call("CASE", (fits, found, Literal(None, of)), of)

    def _connected(self, syntax: Binary) -> Expr:
        """Plan a chain of ANDs or ORs as one call, to limit the depth of long chains."""
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
            args.append(self.plan_as(syntax.escape, VARCHAR))
        check_pattern(syntax.operator, args[1:], syntax.pattern.place)
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
        operand, unit = self.plan_as(syntax.operand, TIMESTAMP), syntax.unit.value
        _see_unit(f"{syntax.function} gives", operand, unit, ROUNDED_TO, syntax.place)
        return self._call(f"{syntax.function}_TO", [operand, unit_literal(unit)], syntax.place)

    def _extract(self, unit: str, operand: Expr, place: SourceSpan) -> Expr:
        _see_unit("EXTRACT reads", operand, unit, UNITS, place)
        return self._call("EXTRACT", [unit_literal(unit), operand], place)

    def _stepped(self, syntax: Stepped) -> Expr:
        operand = self.plan_as(syntax.operand, TIMESTAMP)
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
            raise StatementError(
                f"aggregate {name} is not supported yet", place=place, hint=habits.FUNCTIONS.get(name)
            )
        if name in ONLY_OVER:
            raise StatementError(
                f"{name} needs a window", place=place, hint=f"Write {name}(..) OVER (PARTITION BY ..)."
            )
        if name in GROUP_WINDOWS:
            raise StatementError(f"{name} is not allowed in {self._clause}", place=place, hint=_WINDOW_HINT)
        if name in WINDOW_EDGES:
            raise StatementError(
                f"{name} needs {name.partition('_')[0]} in GROUP BY", place=place, hint=_WINDOW_HINT
            )
        if syntax.star or syntax.distinct or syntax.condition is not None:
            raise StatementError(f"{name} is not an aggregate", place=place)
        if name in ("TIMESTAMPADD", "TIMESTAMPDIFF"):
            return self._by_unit(syntax)
        if name == "DATE_BIN":
            return self._date_bin(syntax)
        if name in CLOCKS and not self._scope.has_rowtime:
            raise StatementError(
                f"{name} is the ROWTIME of a row, and there is none here",
                place=place,
                hint="A row of a stream has a ROWTIME. Results depend on the data alone, never on a clock.",
            )
        if (other := written_out(syntax)) is not None:
            return self._plan(other)
        if name in habits.FUNCTIONS and name not in FUNCTIONS:
            raise StatementError(
                f'function "{name}" does not exist', place=place, hint=habits.FUNCTIONS[name]
            )
        if name in _PARTS and len(syntax.args) == 1:
            return self._extract(_PARTS[name], self.plan_as(syntax.args[0], TIMESTAMP), place)
        args = [self._plan(each) for each in syntax.args]
        name = _SAME_AS.get(name, name)
        if name == "SUBSTRING" and len(args) > 1 and args[1] != UNTYPED_NULL and args[1].type.is_text:
            name = "REGEXP_SUBSTR" if len(args) == 2 else "SUBSTRING SIMILAR"
        if name == "LOG" and len(args) == 1:
            raise StatementError(
                "LOG is written LOG(base, x)",
                place=place,
                hint="LN(x) is the natural logarithm, LOG10(x) the one to base 10.",
            )
        check_constants(syntax, name, args)
        if name in _CONSTANTS and not args:
            return Literal(_CONSTANTS[name], DOUBLE)
        if name == "TO_TIMESTAMP" and len(args) == 1:
            return self._from_epoch(args[0], place)
        if name == "CONCAT" and args:
            joined = args[0] if len(args) > 1 else self._call("||", [args[0], Literal("", VARCHAR)], place)
            for arg in args[1:]:
                joined = self._call("||", [joined, arg], place)
            return joined
        if name == "COALESCE" and args:
            values = self._alike(args, [each.place for each in syntax.args], place)
            return Call("COALESCE", tuple(values), values[0].type)
        return self._call(name, args, place)

    def _from_epoch(self, operand: Expr, place: SourceSpan) -> Expr:
        """Plan TO_TIMESTAMP(x): text is read, a number is seconds since 1970."""
        if operand.type.is_numeric:
            milliseconds = self._call("*", [operand, _whole(1_000)], place)
            operand = self._cast(milliseconds, BIGINT, place)
        elif not operand.type.is_text:
            error = mismatch("TO_TIMESTAMP", (operand.type,), hint="It takes text, or seconds since 1970.")
            error.place = place
            raise error
        return self._cast(operand, TIMESTAMP, place)

    def _date_bin(self, syntax: FunctionCall) -> Expr:
        """Plan DATE_BIN(length, x, origin) as a STEP with its edges moved to the origin."""
        place = syntax.place
        if len(syntax.args) not in (2, 3):
            raise StatementError("DATE_BIN has two or three arguments", place=place, hint=_BIN)
        stride = syntax.args[0]
        if isinstance(stride, StringLiteral):
            stride = _interval_of(stride)
        length = step_ms(self, Stepped(syntax.args[1], stride, place), "DATE_BIN")
        moment = self._cast(self.plan_as(syntax.args[1], TIMESTAMP), TIMESTAMP, place)
        offset = 0
        if len(syntax.args) == 3:
            origin = self._cast(self.plan_as(syntax.args[2], TIMESTAMP), TIMESTAMP, place)
            if not isinstance(origin, Literal) or not isinstance(origin.value, int):
                raise StatementError("the origin of DATE_BIN must be a constant", place=syntax.args[2].place)
            offset = origin.value % int(str(length.value))
        moved = Literal(offset, INTERVAL_DAY)
        step = self._call(
            "STEP", [self._call("-", [moment, moved], place) if offset else moment, length], place
        )
        return self._call("+", [step, moved], place) if offset else step

    def as_one(self, parts: Sequence[Expression], place: SourceSpan) -> Expr:
        """Return one value that is equal for two rows if and only if all ``parts`` are; NULL if a part is NULL."""
        values = [self.plan(each) for each in parts]
        texts = [self._cast(each, VARCHAR, part.place) for each, part in zip(values, parts, strict=True)]
        joined: Expr | None = None
        for text in texts:
            # The length before each part marks its end.
            length = self._cast(self._call("CHAR_LENGTH", [text], place), VARCHAR, place)
            for each in (length, Literal(":", replace(VARCHAR, precision=1)), text):
                joined = each if joined is None else self._call("||", [joined, each], place)
        return values[0] if joined is None else joined

    def _by_unit(self, syntax: FunctionCall) -> Expr:
        """Plan TIMESTAMPADD(unit, n, x), or TIMESTAMPDIFF(unit, x, y) in whole units, truncated toward zero."""
        name, place = syntax.name, syntax.place
        unit = syntax.args[0] if syntax.args else None
        word = unit.parts[0].text if isinstance(unit, ColumnRef) and len(unit.parts) == 1 else ""
        known = {**_UNIT_MS, **_UNIT_MONTHS}
        if word not in known or len(syntax.args) != 3:
            wanted = "n, x" if name == "TIMESTAMPADD" else "x, y"
            raise StatementError(
                f"{name} is written {name}(unit, {wanted})", place=place, hint=f"Units: {', '.join(known)}."
            )
        first, second = (self._plan(each) for each in syntax.args[1:])
        if name == "TIMESTAMPDIFF":
            counted = "TSDIFF" if word in _UNIT_MS else "TSDIFF MONTHS"
            difference = self._call(counted, [first, second], place)
            return (
                self._call("/", [difference, _whole(known[word])], place) if word != "MONTH" else difference
            )
        one = Literal(known[word], INTERVAL_DAY if word in _UNIT_MS else INTERVAL_MONTH)
        return self._call("+", [second, self._call("*", [one, first], place)], place)

    def _aggregate(self, syntax: FunctionCall) -> Expr:
        raise StatementError(
            f"an aggregate is not allowed in {self._clause}",
            place=syntax.place,
            hint=_OF_AGGREGATES.get(self._clause),
        )

    def _over(self, syntax: FunctionCall) -> Expr:
        raise StatementError(f"a window (OVER) is not allowed in {self._clause}", place=syntax.place)

    def _cast(self, operand: Expr, of: Type, place: SourceSpan) -> Expr:
        if operand.type == of:
            return operand
        if isinstance(operand, Literal) and operand.value is None:
            return Literal(None, of)
        return cast(operand, of, place)

    def _try_cast(self, operand: Expr, of: Type, place: SourceSpan) -> Expr:
        if operand.type == of:
            return operand
        guarded(lambda: resolve("CAST", (operand.type, of)), place)
        return fold(Call("TRY_CAST", (operand,), of))

    def _negate(self, expr: Expr, negated: bool) -> Expr:
        return Call("NOT", (expr,), BOOLEAN) if negated else expr

    def _alike(self, values: Sequence[Expr], places: Sequence[SourceSpan], place: SourceSpan) -> list[Expr]:
        """Cast values to their common type; untyped NULLs get it, too."""
        typed = [value.type for value in values if value != UNTYPED_NULL]
        if not typed:
            raise StatementError("NULL has no type here", place=place, hint="Write CAST(NULL AS type).")
        of = guarded(lambda: common_type(typed), place)
        return [
            Literal(None, of) if value == UNTYPED_NULL else self._cast(value, of, at)
            for value, at in zip(values, places, strict=True)
        ]

    def _call(self, name: str, args: Sequence[Expr], place: SourceSpan) -> Call:
        """Return the call of an operator or function, typed.

        Untyped NULLs get a neighbour's type, or the first one that fits. A number beside a TIMESTAMP is
        milliseconds (SQLstream s-Server guide, Relational Operators and Rowtime Bounds: ``rowtime + 100``).
        """
        whole = with_typed_nulls(name, args)
        if name in ("+", "-"):
            first, *rest = (arg.type for arg in whole)
            if rest and first == TIMESTAMP and rest[0].is_integer:
                whole = (whole[0], self._cast(whole[1], INTERVAL_DAY, place))
            elif rest and rest[0] == TIMESTAMP and first.is_integer and name == "+":
                whole = (self._cast(whole[0], INTERVAL_DAY, place), whole[1])
        of = guarded(lambda: resolve(name, tuple(arg.type for arg in whole)), place)
        return Call(name, whole, of)


def _interval_of(text: StringLiteral) -> Expression:
    """Return the interval that a text has in words; return any other text unchanged."""
    try:
        value, family, unit = interval_in_words(text.text)
    except ValueError:
        return text
    return TypedLiteral(value, INTERVAL_DAY if family == "DAY" else INTERVAL_MONTH, text.place, unit)


def _unit_of(syntax: Expression) -> int | None:
    """Return the only unit of an interval, in ms or months, if the text names it."""
    match syntax:
        case Unary(operator=operator, operand=operand):
            return _unit_of(operand) if operator in ("-", "+") else LENGTH_UNITS.get(operator)
        case TypedLiteral(unit=unit) | Cast(interval=IntervalFields(unit=unit)):
            return unit
        case _:
            return None


def _whole(value: int) -> Literal:
    return Literal(value, BIGINT)


def _see_unit(
    what: str, operand: Expr, unit: str, known: Mapping[Type, Sequence[str]], place: SourceSpan
) -> None:
    """Check that values of the operand's type have a unit."""
    if operand.type not in known:
        kinds = ", ".join(str(each) for each in known)
        raise StatementError(f"{what} a unit of {kinds}; this is {operand.type}", place=place)
    units = known[operand.type]
    if unit not in units:
        raise StatementError(
            f"{operand.type} has no {unit}", place=place, hint=f"{what} {', '.join(units)} of it."
        )


def unit_literal(unit: str) -> Literal:
    """Return the name of a unit as the argument of FLOOR_TO, CEIL_TO or EXTRACT."""
    return Literal(unit, replace(VARCHAR, precision=len(unit)))


def step_ms(planner: ExpressionPlanner, syntax: Stepped, function: str = "STEP") -> Literal:
    """Return the length of a STEP, or a similar argument of another function.

    Raises:
      StatementError: it is not a positive constant interval of days to seconds.
    """
    length = planner.plan(syntax.interval)
    fits = isinstance(length, Literal) and length.type.kind is Kind.INTERVAL_DAY
    if not (fits and isinstance(length, Literal) and isinstance(length.value, int) and length.value > 0):
        raise StatementError(
            f"{function} takes an interval of days to seconds above zero",
            place=syntax.interval.place,
            hint="Write STEP(ROWTIME BY INTERVAL '5' MINUTE)." if function == "STEP" else _BIN,
        )
    return length


def _number(syntax: NumberLiteral) -> Literal:
    """Return a number: INTEGER or BIGINT if whole, DECIMAL if it has a point, DOUBLE if it has an exponent."""
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


def _no_condition(expr: Expr, place: SourceSpan) -> StatementError:
    hint = "Write x <> 0." if expr.type.is_numeric else None
    return StatementError(f"a condition is BOOLEAN, this is {expr.type}", place=place, hint=hint)
