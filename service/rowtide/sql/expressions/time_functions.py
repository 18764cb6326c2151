"""Functions of times that are planned as other calls: DATE_BIN, TIMESTAMPADD, EXTRACT, STEP, AGE, .."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions.function import mismatch
from rowtide.expr.functions.times.times import UNITS
from rowtide.expr.tree import Expr, Literal
from rowtide.rows.types import BIGINT, INSTANT, INTERVAL_DAY, INTERVAL_MONTH, TIME, TIMESTAMP, Kind, Type
from rowtide.sql.expressions.literals import interval_of, unit_literal, whole
from rowtide.sql.expressions.typed_calls import OperandPlanner, call, converted
from rowtide.sql.grammar.syntax import ColumnRef, FunctionCall, Stepped, StringLiteral

_BIN = "Write DATE_BIN(INTERVAL '15' MINUTE, x, TIMESTAMP '2024-01-01 00:00:00')."
_UNIT_MS = {
    "WEEK": 604_800_000,
    **{"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "MILLISECOND": 1},
}
_UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
AGE = "AGE"
"""The time between two times in months, days and parts of a day: only its parts are values."""
_AGE_PARTS = {
    **dict.fromkeys(UNITS[INTERVAL_MONTH], "AGE MONTHS"),
    **dict.fromkeys((each for each in UNITS[INTERVAL_DAY] if each != "EPOCH"), "AGE REST"),
}
"""The units of AGE, each with the function of the part that has it."""


def extract(unit: str, operand: Expr, span: SourceSpan) -> Expr:
    """Plan EXTRACT(unit FROM operand).

    Raises:
      StatementError: values of the operand's type have no such unit.
    """
    check_unit("EXTRACT reads", operand, unit, UNITS, span)
    return call("EXTRACT", [unit_literal(unit), operand], span)


def from_epoch(operand: Expr, span: SourceSpan) -> Expr:
    """Plan TO_TIMESTAMP(x): text is read, a number is seconds since 1970."""
    if operand.type.is_numeric:
        milliseconds = call("*", [operand, whole(1_000)], span)
        operand = converted(milliseconds, BIGINT, span)
    elif not operand.type.is_text:
        error = mismatch("TO_TIMESTAMP", (operand.type,), hint="It takes text, or seconds since 1970.")
        error.place = span
        raise error
    return converted(operand, TIMESTAMP, span)


def date_bin(planner: OperandPlanner, syntax: FunctionCall) -> Expr:
    """Plan DATE_BIN(length, x, origin) as a STEP with its edges moved to the origin."""
    place = syntax.place
    if len(syntax.args) not in (2, 3):
        raise StatementError("DATE_BIN has two or three arguments", span=place, hint=_BIN)
    stride = syntax.args[0]
    if isinstance(stride, StringLiteral):
        stride = interval_of(stride)
    length = step_ms(planner, Stepped(syntax.args[1], stride, place), "DATE_BIN")
    given = planner.plan_as(syntax.args[1], TIMESTAMP)
    moment = converted(given, TIMESTAMP, place)
    offset = 0
    if len(syntax.args) == 3:
        origin = converted(planner.plan_as(syntax.args[2], TIMESTAMP), TIMESTAMP, place)
        if not isinstance(origin, Literal) or not isinstance(origin.value, int):
            raise StatementError("the origin of DATE_BIN must be a constant", span=syntax.args[2].place)
        offset = origin.value % int(str(length.value))
    moved = Literal(offset, INTERVAL_DAY)
    step = call("STEP", [call("-", [moment, moved], place) if offset else moment, length], place)
    found = call("+", [step, moved], place) if offset else step
    return converted(found, INSTANT, place) if given.type == INSTANT else found


def by_unit(planner: OperandPlanner, syntax: FunctionCall) -> Expr:
    """Plan TIMESTAMPADD(unit, n, x), or TIMESTAMPDIFF(unit, x, y) in whole units, truncated toward zero."""
    name, place = syntax.name, syntax.place
    unit = syntax.args[0] if syntax.args else None
    word = unit.parts[0].text if isinstance(unit, ColumnRef) and len(unit.parts) == 1 else ""
    known = {**_UNIT_MS, **_UNIT_MONTHS}
    if word not in known or len(syntax.args) != 3:
        wanted = "n, x" if name == "TIMESTAMPADD" else "x, y"
        raise StatementError(
            f"{name} is written {name}(unit, {wanted})", span=place, hint=f"Units: {', '.join(known)}."
        )
    first, second = (planner.typed(each) for each in syntax.args[1:])
    if name == "TIMESTAMPDIFF":
        counted = "TSDIFF" if word in _UNIT_MS else "TSDIFF MONTHS"
        difference = call(counted, [first, second], place)
        return call("/", [difference, whole(known[word])], place) if word != "MONTH" else difference
    one = Literal(known[word], INTERVAL_DAY if word in _UNIT_MS else INTERVAL_MONTH)
    return call("+", [second, call("*", [one, first], place)], place)


def age_unit(planner: OperandPlanner, unit: str, syntax: FunctionCall, span: SourceSpan) -> Expr:
    """Plan EXTRACT(unit FROM AGE(x, y)).

    Raises:
      StatementError: AGE has no such unit.
    """
    part = _AGE_PARTS.get(unit)
    if part is None:
        hint = (
            f"EXTRACT reads {', '.join(_AGE_PARTS)} of it. EXTRACT({unit} FROM x - y) may be what is meant."
        )
        raise StatementError(f"AGE has no {unit}", span=span, hint=hint)
    return extract(unit, _age_part(planner, part, syntax), span)


def age_months(planner: OperandPlanner, syntax: FunctionCall) -> Expr:
    """Plan the whole months of AGE(x, y), or of AGE(x): up to the midnight at which the current day begins."""
    return _age_part(planner, "AGE MONTHS", syntax)


def _age_part(planner: OperandPlanner, part: str, syntax: FunctionCall) -> Expr:
    place = syntax.place
    if len(syntax.args) not in (1, 2):
        raise StatementError("AGE is written AGE(x, y) or AGE(x)", span=place)
    today = FunctionCall("CURRENT_DATE", (), place)
    args = syntax.args if len(syntax.args) == 2 else (today, *syntax.args)
    return call(part, [planner.plan_as(each, TIMESTAMP) for each in args], place)


def whole_age(planner: OperandPlanner, syntax: FunctionCall) -> Expr:
    """Refuse AGE(x, y) where its parts are not asked for: no interval holds months and days.

    Raises:
      StatementError: always.
    """
    age_months(planner, syntax)
    raise StatementError(
        "AGE is months and days, and no interval holds both",
        span=syntax.place,
        hint="EXTRACT(YEAR FROM AGE(x, y)), and MONTH, DAY, HOUR, .., are its parts, "
        "CAST(AGE(x, y) AS INTERVAL YEAR TO MONTH) is its whole months. x - y is the time between in days.",
    )


def period_predicate(args: Sequence[Expr], syntax: FunctionCall) -> Expr:
    """Plan a predicate of two periods; an INTERVAL as the end of a period is its length."""
    edges: list[Expr] = []
    for start, end in (args[:2], args[2:]):
        if start.type == TIME and end.type in (INTERVAL_DAY, INTERVAL_MONTH):
            raise StatementError(
                "a period of TIME has no length, because TIME wraps after 24 hours",
                span=syntax.place,
                hint="Write PERIOD (start, end) with two times.",
            )
        is_length = end.type in (INTERVAL_DAY, INTERVAL_MONTH)
        edges += [start, call("+", [start, end], syntax.place) if is_length else end]
    return call(syntax.name, edges, syntax.place)


def check_unit(
    what: str, operand: Expr, unit: str, known: Mapping[Type, Sequence[str]], span: SourceSpan
) -> None:
    """Check that values of the operand's type have a unit.

    Raises:
      StatementError: they do not.
    """
    given = TIMESTAMP if operand.type == INSTANT else operand.type
    if given not in known:
        kinds = ", ".join(str(each) for each in known)
        raise StatementError(f"{what} a unit of {kinds}; this is {operand.type}", span=span)
    units = known[given]
    if unit not in units:
        raise StatementError(
            f"{operand.type} has no {unit}", span=span, hint=f"{what} {', '.join(units)} of it."
        )


def step_ms(planner: OperandPlanner, syntax: Stepped, function: str = "STEP") -> Literal:
    """Return the length of a STEP, or a similar argument of another function.

    Raises:
      StatementError: it is not a positive constant interval of days to seconds.
    """
    length = planner.plan(syntax.interval)
    fits = isinstance(length, Literal) and length.type.kind is Kind.INTERVAL_DAY
    if not (fits and isinstance(length, Literal) and isinstance(length.value, int) and length.value > 0):
        raise StatementError(
            f"{function} takes an interval of days to seconds above zero",
            span=syntax.interval.place,
            hint="Write STEP(ROWTIME BY INTERVAL '5' MINUTE)." if function == "STEP" else _BIN,
        )
    return length
