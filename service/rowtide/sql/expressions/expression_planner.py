"""Expressions: syntax -> the typed tree of ``rowtide.expr``.

BETWEEN is written as two comparisons, IN as several, CASE x WHEN as CASE WHEN.
Constant parts are computed once, here.

An untyped NULL gets the type of its neighbor. Without a neighbor it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.aggregates import ONLY_OVER
from rowtide.expr.constant import fold
from rowtide.expr.functions import FUNCTIONS
from rowtide.expr.functions.arrays import elements
from rowtide.expr.functions.times.times import ROUNDED_TO
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.expressions import time_functions
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS, LATER, WINDOW_EDGES
from rowtide.sql.expressions.conversions import UNTYPED_NULL, with_digits
from rowtide.sql.expressions.declared_calls import declared_call
from rowtide.sql.expressions.failing_constants import refuse_failing
from rowtide.sql.expressions.function_calls import function_call
from rowtide.sql.expressions.function_forms import CLOCKS, check_pattern, written_out
from rowtide.sql.expressions.literals import number, unit_literal, unit_of, whole
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.expressions.time_functions import check_unit, extract, step_ms
from rowtide.sql.expressions.typed_calls import alike, call, converted, negated_if, try_converted
from rowtide.sql.grammar import habits
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
    is_aggregate,
)

_WINDOW_HINT = (
    "GROUP BY TUMBLE(ROWTIME, ..) makes groups; TUMBLE_START(ROWTIME, ..) and TUMBLE_END(..) are its edges."
)
_OF_AGGREGATES = {
    "WHERE": "HAVING judges groups: HAVING COUNT(*) > 1.",
    "GROUP BY": "GROUP BY takes terms of a row; a number is the place of one in the select list.",
    "an aggregate": "Aggregate twice: SELECT SUM(c) FROM (SELECT COUNT(*) AS c FROM .. GROUP BY ..) GROUP BY ..",
}


class ExpressionPlanner:
    """Resolves and types expressions over the rows of one scope.

    ``clause`` is the clause of the expression, for the message that refuses an aggregate there. With
    ``each_row`` the expression is evaluated for each row, so a constant that fails is refused.
    """

    def __init__(self, scope: NameScope, clause: str, *, each_row: bool = False) -> None:
        self._scope = scope
        self._clause = clause
        self.each_row = each_row

    def of_each_row(self, each_row: bool) -> Self:
        """Set whether what is planned is evaluated for each row."""
        self.each_row = each_row
        return self

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Plan what is evaluated for some rows only: behind AND, in a branch of CASE."""
        each_row, self.each_row = self.each_row, False
        try:
            yield
        finally:
            self.each_row = each_row

    def plan(self, syntax: Expression) -> Expr:
        """Return the typed tree of ``syntax``; an untyped NULL is refused.

        Raises:
          StatementError: a name or function does not exist, or types do not fit; with its place.
        """
        typed = self.typed(syntax)
        if typed == UNTYPED_NULL:
            raise StatementError("NULL has no type here", span=syntax.place, hint="Write CAST(NULL AS type).")
        return typed

    def plan_as(self, syntax: Expression, wanted: Type) -> Expr:
        """Return the typed tree of ``syntax``; an untyped NULL gets type ``wanted``."""
        typed = self.typed(syntax)
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

    def typed(self, syntax: Expression) -> Expr:
        """Return the typed tree of ``syntax``, which can be an untyped NULL."""
        found = self._typed(syntax)
        if self.each_row:
            refuse_failing(found, syntax.place)
        return found

    def _typed(self, syntax: Expression) -> Expr:
        match syntax:
            case ColumnRef():
                return self._column(syntax)
            case NumberLiteral():
                return number(syntax)
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
                return call(operator, [self.typed(left), self.typed(right)], place)
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
                    span=place,
                    hint="WHERE and the select list take one. Groups go into FROM (..) of another query.",
                )
            case Like():
                return self._like(syntax)
            case Case():
                return self._case(syntax)
            case Cast(
                operand=FunctionCall(name=time_functions.AGE) as age, interval=IntervalFields() as fields
            ) if syntax.type == INTERVAL_MONTH:
                return self._cast_to_interval(syntax, time_functions.age_months(self, age), fields)
            case Cast(operand=operand, type=of, interval=IntervalFields() as fields):
                return self._cast_to_interval(syntax, self.plan_as(operand, of), fields)
            case Cast(operand=FunctionCall(name=elements.MAKER, args=()), type=of) if of.element is not None:
                return Literal((), of)
            case Cast(operand=operand, type=of, place=place, tried=tried):
                cast_to = try_converted if tried else converted
                unit = unit_of(operand)
                if unit is not None and of.is_integer:
                    return cast_to(self._counted(self.typed(operand), unit, place), of, place)
                typed = self.typed(operand)
                of = with_digits(of, typed, place)
                return cast_to(Literal(None, of) if typed == UNTYPED_NULL else fold(typed), of, place)
            case Rounded():
                return self._rounded(syntax)
            case Stepped():
                return self._stepped(syntax)
            case Extract(unit=unit, operand=FunctionCall(name=time_functions.AGE) as age, place=place):
                return time_functions.age_unit(self, unit, age, place)
            case Extract(unit=unit, operand=operand, place=place):
                return extract(unit, self.plan_as(operand, TIMESTAMP), place)
            case FunctionCall():
                return self._function(syntax)

    def _column(self, syntax: ColumnRef) -> Expr:
        return self._scope.resolve(syntax)

    def _unary(self, syntax: Unary) -> Expr:
        if syntax.operator == "-" and syntax.operand == NumberLiteral(str(2**63)):
            # The least BIGINT, which does not fit without its sign.
            return Literal(-(2**63), BIGINT)
        operand = self.typed(syntax.operand)
        if syntax.operator == "NOT":
            return call("NOT", [operand], syntax.place)
        if syntax.operator == "TO" or syntax.operator in LENGTH_UNITS:
            if operand.type != INTERVAL_DAY:
                raise StatementError(
                    f"a unit is allowed after a difference of times only, not after {operand.type}",
                    span=syntax.place,
                    hint=f"AS {syntax.operator} makes it the name of a column.",
                )
            return operand
        if syntax.operator == "~":
            return call("~", [operand], syntax.place)
        negated = call("NEGATE", [operand], syntax.place)
        return negated if syntax.operator == "-" else operand

    def _counted(self, length: Expr, unit: int, span: SourceSpan) -> Expr:
        """Plan the whole units of an interval, truncated toward zero: ``CAST((x - y) MINUTE AS INTEGER)``."""
        return call("/", [converted(length, BIGINT, span), whole(unit)], span)

    def _cast_to_interval(self, syntax: Cast, operand: Expr, fields: IntervalFields) -> Expr:
        """Plan CAST(x AS INTERVAL HOUR): an integer counts the unit; other values lose their smaller parts."""
        of, place = syntax.type, syntax.place
        cast_to = try_converted if syntax.tried else converted
        if operand.type.is_integer and fields.unit is not None:
            if syntax.tried:
                raise StatementError(
                    "TRY_CAST of a number to a unit is not supported",
                    span=place,
                    hint="Write x * INTERVAL '1' HOUR.",
                )
            found: Expr = call("*", [operand, Literal(fields.unit, of)], place)
        else:
            found = cast_to(operand, of, place)
            if fields.least > 1:
                cut = self._counted(found, fields.least, place)
                found = call("*", [cut, Literal(fields.least, of)], place)
        if fields.digits is None:
            return found
        # A count of the first unit with more digits than its precision is OVERFLOW.
        count = cast_to(self._counted(found, fields.first, place), decimal(fields.digits), place)
        fits = call("IS NOT NULL", [count], place)
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
        first = self.condition(operands[0])
        with self.perhaps():
            rest = [self.condition(each) for each in operands[1:]]
        return Call(syntax.operator, (first, *rest), BOOLEAN)

    def _is_test(self, syntax: IsTest) -> Expr:
        operand = self.plan_as(syntax.operand, BOOLEAN)
        if syntax.test != "NULL" and operand.type != BOOLEAN:
            raise _no_condition(operand, syntax.operand.place)
        test = "NULL" if syntax.test == "UNKNOWN" else syntax.test
        return call(f"IS {'NOT ' if syntax.negated else ''}{test}", [operand], syntax.place)

    def _is_distinct(self, syntax: IsDistinct) -> Expr:
        operands = [self.typed(syntax.left), self.typed(syntax.right)]
        return call(f"IS {'NOT ' if syntax.negated else ''}DISTINCT FROM", operands, syntax.place)

    def _between(self, syntax: Between) -> Expr:
        operand, low = self.typed(syntax.operand), self.typed(syntax.low)
        with self.perhaps():
            high = self.typed(syntax.high)
        above = call(">=", [operand, low], syntax.place)
        below = call("<=", [operand, high], syntax.place)
        return negated_if(syntax.negated, Call("AND", (above, below), BOOLEAN))

    def _in_list(self, syntax: InList) -> Expr:
        operand = self.typed(syntax.operand)
        equals = [call("=", [operand, self.typed(syntax.items[0])], syntax.items[0].place)]
        with self.perhaps():
            equals += [call("=", [operand, self.typed(item)], item.place) for item in syntax.items[1:]]
        found = equals[0] if len(equals) == 1 else Call("OR", tuple(equals), BOOLEAN)
        return negated_if(syntax.negated, found)

    def _like(self, syntax: Like) -> Expr:
        args = [self.plan_as(syntax.operand, VARCHAR), self.plan_as(syntax.pattern, VARCHAR)]
        if syntax.escape is not None:
            args.append(self.plan_as(syntax.escape, VARCHAR))
        check_pattern(syntax.operator, args[1:], syntax.pattern.place)
        return negated_if(syntax.negated, call(syntax.operator, args, syntax.place))

    def _case(self, syntax: Case) -> Expr:
        operand = None if syntax.operand is None else self.typed(syntax.operand)

        def condition(of: Expression) -> Expr:
            return self.condition(of) if operand is None else call("=", [operand, self.typed(of)], of.place)

        conditions = [condition(syntax.branches[0][0])]
        with self.perhaps():
            conditions += [condition(each) for each, _ in syntax.branches[1:]]
            values = [self.typed(value) for _, value in syntax.branches]
            values.append(UNTYPED_NULL if syntax.otherwise is None else self.typed(syntax.otherwise))
        places = [value.place for _, value in syntax.branches]
        places.append(syntax.place if syntax.otherwise is None else syntax.otherwise.place)
        values = alike(values, places, syntax.place)
        args = [each for pair in zip(conditions, values, strict=False) for each in pair]
        return Call("CASE", (*args, values[-1]), values[-1].type)

    def _rounded(self, syntax: Rounded) -> Expr:
        operand, unit = self.plan_as(syntax.operand, TIMESTAMP), syntax.unit.value
        check_unit(f"{syntax.function} gives", operand, unit, ROUNDED_TO, syntax.place)
        return call(f"{syntax.function}_TO", [operand, unit_literal(unit)], syntax.place)

    def _stepped(self, syntax: Stepped) -> Expr:
        operand = self.plan_as(syntax.operand, TIMESTAMP)
        length = step_ms(self, syntax)
        return call("STEP", [operand, length], syntax.place)

    # ------------------------------------------------------------ functions

    def _function(self, syntax: FunctionCall) -> Expr:
        name, place = syntax.name, syntax.place
        if syntax.declared is not None and syntax.declared.aggregate is None:
            return declared_call(self, syntax.declared, syntax)
        if syntax.over is not None:
            return self._over(syntax)
        if is_aggregate(syntax):
            return self._aggregate(syntax)
        self._check_scalar(syntax)
        if name in CLOCKS and not self._scope.has_rowtime:
            raise StatementError(
                f"{name} is the ROWTIME of a row, and there is none here",
                span=place,
                hint="A row of a stream has a ROWTIME. Results depend on the data alone, never on a clock.",
            )
        if (other := written_out(syntax)) is not None:
            return self.typed(other)
        if name in habits.FUNCTIONS and name not in FUNCTIONS:
            raise StatementError(f'function "{name}" does not exist', span=place, hint=habits.FUNCTIONS[name])
        return function_call(self, syntax)

    def _check_scalar(self, syntax: FunctionCall) -> None:
        """Refuse what only an aggregate, a window function or a group window takes."""
        name, place = syntax.name, syntax.place
        if syntax.ignore_nulls:
            raise StatementError(f"{name} takes no IGNORE NULLS", span=place)
        if name in LATER:
            raise StatementError(
                f"aggregate {name} is not supported yet", span=place, hint=habits.FUNCTIONS.get(name)
            )
        if name in ONLY_OVER:
            raise StatementError(
                f"{name} needs a window", span=place, hint=f"Write {name}(..) OVER (PARTITION BY ..)."
            )
        if name in GROUP_WINDOWS:
            raise StatementError(f"{name} is not allowed in {self._clause}", span=place, hint=_WINDOW_HINT)
        if name in WINDOW_EDGES:
            raise StatementError(
                f"{name} needs {name.partition('_')[0]} in GROUP BY", span=place, hint=_WINDOW_HINT
            )
        if syntax.star or syntax.distinct or syntax.condition is not None:
            raise StatementError(f"{name} is not an aggregate", span=place)

    def as_one(self, parts: Sequence[Expression], span: SourceSpan) -> Expr:
        """Return one value that is equal for two rows if and only if all ``parts`` are; NULL if a part is NULL."""
        values = [self.plan(each) for each in parts]
        texts = [converted(each, VARCHAR, part.place) for each, part in zip(values, parts, strict=True)]
        joined: Expr | None = None
        for text in texts:
            # The length before each part marks its end.
            length = converted(call("CHAR_LENGTH", [text], span), VARCHAR, span)
            for each in (length, Literal(":", replace(VARCHAR, precision=1)), text):
                joined = each if joined is None else call("||", [joined, each], span)
        return values[0] if joined is None else joined

    def _aggregate(self, syntax: FunctionCall) -> Expr:
        raise StatementError(
            f"an aggregate is not allowed in {self._clause}",
            span=syntax.place,
            hint=_OF_AGGREGATES.get(self._clause),
        )

    def _over(self, syntax: FunctionCall) -> Expr:
        raise StatementError(f"a window (OVER) is not allowed in {self._clause}", span=syntax.place)


def _no_condition(expr: Expr, span: SourceSpan) -> StatementError:
    hint = "Write x <> 0." if expr.type.is_numeric else None
    return StatementError(f"a condition is BOOLEAN, this is {expr.type}", span=span, hint=hint)
