"""Functions that are other expressions: NVL2, IF, DECODE, STRPOS, DATE_TRUNC, ..

They are rewritten before planning, so each has the types, NULLs and errors of its expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from rowtide.errors import RejectedRowError, SourceSpan, StatementError
from rowtide.expr.functions.text.json_text import JSON_PATHS
from rowtide.expr.functions.text.patterns import flags_of, groups_of, pattern_error
from rowtide.expr.functions.times.time_formats import FormatError
from rowtide.expr.functions.times.times import UNITS
from rowtide.expr.functions.times.times_as_text import FORMATS
from rowtide.expr.functions.times.zones import FROM_TZ, FROM_UTC, TO_UTC
from rowtide.expr.json_path import JsonPathError, parse_path
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import BOOLEAN, DATE, TIME, TIMESTAMP, VARCHAR, Type
from rowtide.rowtime.period import CalendarUnit
from rowtide.rowtime.zones import zone_names, zone_of
from rowtide.sql.expressions.scope import ROWTIME
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import (
    Binary,
    Case,
    Cast,
    ColumnRef,
    Expression,
    Extract,
    FunctionCall,
    IsDistinct,
    IsTest,
    Name,
    NumberLiteral,
    Rounded,
    StringLiteral,
    TypedLiteral,
    Unary,
)

CLOCKS = frozenset(
    {
        *("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP"),
        *("CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"),
    }
)
"""Functions that read a clock in other systems; here they return ROWTIME
(docs/sql/semantics.md#the-current-time)."""

_Write = Callable[[Sequence[Expression], SourceSpan], Expression | None]
"""Returns the expression of a call; None for a call that is not rewritten."""


def _if(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return Case(None, ((args[0], args[1]),), args[2], span)


def _nvl2(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return Case(None, ((IsTest(args[0], "NULL", True, span), args[1]),), args[2], span)


def _decode(args: Sequence[Expression], span: SourceSpan) -> Expression:
    if len(args) == 2:
        return _coded(args, span, "DECODE", _READ_AS)
    operand, *rest = args
    branches = tuple(
        (IsDistinct(operand, value, True, span), result)
        for value, result in zip(rest[::2], rest[1::2], strict=False)
    )
    return Case(None, branches, rest[-1] if len(rest) % 2 else None, span)


def _found(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return FunctionCall("POSITION", (args[0], args[1]), span)


def _found_last(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return FunctionCall("POSITION", (args[1], args[0]), span)


def _bit_length(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return Binary("*", FunctionCall("OCTET_LENGTH", (args[0],), span), NumberLiteral("8", span), span)


def _numbered(values: Sequence[Expression], span: SourceSpan) -> list[tuple[Expression, Expression]]:
    return [(NumberLiteral(str(number), span), value) for number, value in enumerate(values, start=1)]


def _field(args: Sequence[Expression], span: SourceSpan) -> Expression:
    operand, *values = args
    branches = tuple((value, number) for number, value in _numbered(values, span))
    return Case(operand, branches, NumberLiteral("0", span), span)


def _elt(args: Sequence[Expression], span: SourceSpan) -> Expression:
    operand, *values = args
    return Case(operand, tuple(_numbered(values, span)), None, span)


def _space(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return FunctionCall("REPEAT", (StringLiteral(" ", span), args[0]), span)


def _now(args: Sequence[Expression], span: SourceSpan) -> Expression:
    del args
    return ColumnRef((Name(ROWTIME, span),), span)


def _now_as(of: Type) -> _Write:
    return lambda args, place: Cast(_now(args, place), of, place)


def _unit_named(unit: Expression, function: str, units: Sequence[str], *, quoted: bool = True) -> str:
    """Return the unit that is named in quotes or as a word, in the singular or plural."""
    if not quoted and isinstance(unit, ColumnRef) and len(unit.parts) == 1:
        unit = StringLiteral(unit.parts[0].text, unit.place)
    word = unit.text.upper() if isinstance(unit, StringLiteral) else ""
    for each in (word, word.removesuffix("S")):
        if each in units:
            return each
    wanted = "the name of a unit in quotes" if quoted else "a unit"
    raise StatementError(f"{function} takes {wanted}", span=unit.place, hint=f"Units: {', '.join(units)}.")


def _date_trunc(args: Sequence[Expression], span: SourceSpan) -> Expression:
    unit, operand = args
    word = _unit_named(unit, "DATE_TRUNC", [each.value for each in CalendarUnit])
    return Rounded("FLOOR", operand, CalendarUnit(word), span)


def _date_part(args: Sequence[Expression], span: SourceSpan) -> Expression:
    unit, operand = args
    return Extract(_unit_named(unit, "DATE_PART", UNITS[TIMESTAMP]), operand, span)


_WITH_FLAGS = {"REGEXP_LIKE": 3, "REGEXP_COUNT": 3, "REGEXP_SUBSTR": 3, "REGEXP_REPLACE": 4}
"""The number of arguments of a function of expressions that is called with flags."""
_PLACES = re.compile(r"%(?:([0-9]+)\$)?(-?)([0-9]*)(.?)", re.DOTALL)
"""The places of FORMAT: the number of the value, the flag, the width and the kind."""
_MOST_DIGITS = 4


def _formatted(kind: str, text: Expression, span: SourceSpan) -> Expression:
    if kind == "I":
        return FunctionCall("QUOTE_IDENT", (text,), span)
    shown = text if kind == "s" else FunctionCall("QUOTE_LITERAL", (text,), span)
    return FunctionCall("COALESCE", (shown, StringLiteral("" if kind == "s" else "NULL", span)), span)


def _filled(text: Expression, width: int, *, left: bool, span: SourceSpan) -> Expression:
    """Return a text with blanks up to a width, after it if it is on the left; a longer text is not cut."""
    length = FunctionCall("CHAR_LENGTH", (text,), span)
    wanted = FunctionCall("GREATEST", (length, NumberLiteral(str(width), span)), span)
    return FunctionCall("RPAD" if left else "LPAD", (text, wanted), span)


def _format(args: Sequence[Expression], span: SourceSpan) -> Expression:
    """Write FORMAT('%s: %2$-5s', x, y) as a concatenation.

    A NULL is no text for %s and the word NULL for %L; for %I it makes the whole result NULL. A place without
    a number has the value after that of the place before (PostgreSQL, chapter "String Functions").
    """
    form, *values = args
    if not isinstance(form, StringLiteral):
        raise StatementError("the first argument of FORMAT must be constant text", span=form.place)
    joined: list[Expression] = []
    used: set[int] = set()
    number = end = 0
    for each in _PLACES.finditer(form.text):
        joined.append(StringLiteral(form.text[end : each.start()], span))
        end = each.end()
        if each.group() == "%%":
            joined.append(StringLiteral("%", span))
            continue
        position, flag, width, kind = each.groups()
        if kind not in ("s", "I", "L") or max(len(width), len(position or "")) > _MOST_DIGITS:
            raise StatementError(
                f'FORMAT does not take "{each.group()}"',
                span=form.place,
                hint="It takes %s for a value, %I for an identifier, %L for a literal and %% for a percent sign; "
                "%2$s is the second value, %9s and %-9s have blanks up to a width.",
            )
        number = int(position) if position else number + 1
        if not 0 < number <= len(values):
            raise StatementError(
                f"FORMAT has no value {number} for {each.group()}",
                span=form.place,
                hint=None if number else "The first value has the number 1.",
            )
        used.add(number)
        text = _formatted(kind, Cast(values[number - 1], VARCHAR, span), span)
        joined.append(_filled(text, int(width), left=bool(flag), span=span) if width else text)
    joined.append(StringLiteral(form.text[end:], span))
    unused = [number for number in range(1, len(values) + 1) if number not in used]
    if unused:
        raise StatementError(f"FORMAT has no place for value {unused[0]}", span=form.place)
    texts = [each for each in joined if each != StringLiteral("")] or [StringLiteral("", span)]
    return reduce(lambda left, right: Binary("||", left, right, span), texts)


_WRITTEN_AS = {"HEX": "HEX", "BASE64": "TO_BASE64"}
_READ_AS = {"HEX": "UNHEX", "BASE64": "FROM_BASE64"}


def _coded(
    args: Sequence[Expression], span: SourceSpan, name: str, functions: Mapping[str, str]
) -> FunctionCall:
    operand, form = args
    function = functions.get(form.text.upper()) if isinstance(form, StringLiteral) else None
    if function is None:
        raise StatementError(
            f"{name} takes the name of a format in quotes", span=form.place, hint="Formats: 'hex', 'base64'."
        )
    return FunctionCall(function, (operand,), span)


def _encode(args: Sequence[Expression], span: SourceSpan) -> Expression:
    found = _coded(args, span, "ENCODE", _WRITTEN_AS)
    return FunctionCall("LOWER", (found,), span) if found.name == "HEX" else found


def _unit_word(unit: Expression, function: str) -> str:
    return _unit_named(unit, function, [each.value for each in CalendarUnit], quoted=False)


def _datediff(args: Sequence[Expression], span: SourceSpan) -> Expression:
    """Write DATEDIFF(unit, x, y): the calendar edges between x and y; DATEDIFF(x, y): days from y to x."""
    if len(args) == 2:
        word, start, end = "DAY", args[1], args[0]
    else:
        word, start, end = _unit_word(args[0], "DATEDIFF"), args[1], args[2]
    unit = ColumnRef((Name(word, span),), span)
    edges = (Rounded("FLOOR", each, CalendarUnit(word), span) for each in (start, end))
    return FunctionCall("TIMESTAMPDIFF", (unit, *edges), span)


def _dateadd(args: Sequence[Expression], span: SourceSpan) -> Expression:
    unit = ColumnRef((Name(_unit_word(args[0], "DATEADD"), span),), span)
    return FunctionCall("TIMESTAMPADD", (unit, *args[1:]), span)


def _date_moved(sign: str) -> Callable[[Sequence[Expression], SourceSpan], Expression]:
    """Return DATE_ADD or DATE_SUB: ``(x, INTERVAL '1' MONTH)``, or ``(x, n)`` in days."""

    def moved(args: Sequence[Expression], span: SourceSpan) -> Expression:
        operand, by = args
        if isinstance(by, TypedLiteral) and by.type.is_interval:
            return Binary(sign, operand, by, span)
        days = by if sign == "+" else Unary("-", by, span)
        return FunctionCall("TIMESTAMPADD", (ColumnRef((Name("DAY", span),), span), days, operand), span)

    return moved


def _date_add(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return _dateadd(args, span) if len(args) == 3 else _date_moved("+")(args, span)


def _add_months(args: Sequence[Expression], span: SourceSpan) -> Expression:
    return FunctionCall("TIMESTAMPADD", (ColumnRef((Name("MONTH", span),), span), args[1], args[0]), span)


def _unix_timestamp(args: Sequence[Expression], span: SourceSpan) -> Expression:
    if len(args) == 2:
        moment: Expression = FunctionCall("CHAR_TO_TIMESTAMP", (args[1], args[0]), span)
    else:
        moment = Cast(args[0], TIMESTAMP, span) if args else _now(args, span)
    return Extract("EPOCH", moment, span)


def _from_unixtime(args: Sequence[Expression], span: SourceSpan) -> Expression:
    form = args[1] if len(args) == 2 else StringLiteral("yyyy-MM-dd HH:mm:ss", span)
    return FunctionCall("TIMESTAMP_TO_CHAR", (form, FunctionCall("TO_TIMESTAMP", (args[0],), span)), span)


def _to_date(args: Sequence[Expression], span: SourceSpan) -> Expression | None:
    return Cast(args[0], DATE, span) if len(args) == 1 else None


def _convert_tz(args: Sequence[Expression], span: SourceSpan) -> Expression:
    moment, given, wanted = args
    return FunctionCall(FROM_UTC, (FunctionCall(TO_UTC, (moment, given), span), wanted), span)


def _turned(function: str) -> _Write:
    """Return a form that writes ``f(x, pattern)`` as ``function(pattern, x)``."""
    return lambda args, place: FunctionCall(function, (args[1], args[0]), place)


_FORMS: dict[str, tuple[int, int | None, str, _Write]] = {
    "IF": (3, 3, "condition, x, y", _if),
    "IIF": (3, 3, "condition, x, y", _if),
    "NVL2": (3, 3, "x, y, z", _nvl2),
    "DECODE": (2, None, "x, value, result, ..) or DECODE(text, 'base64'", _decode),
    "ENCODE": (2, 2, "x, 'base64'", _encode),
    "FORMAT": (1, None, "'%s: %s', x, y", _format),
    "STRPOS": (2, 2, "x, part", _found_last),
    "INSTR": (2, 2, "x, part", _found_last),
    "LOCATE": (2, 2, "part, x", _found),
    "CHARINDEX": (2, 2, "part, x", _found),
    "SPACE": (1, 1, "n", _space),
    "BIT_LENGTH": (1, 1, "x", _bit_length),
    "FIELD": (2, None, "x, value, ..", _field),
    "ELT": (2, None, "n, value, ..", _elt),
    "DATE_TRUNC": (2, 2, "'unit', x", _date_trunc),
    "DATEDIFF": (2, 3, "unit, x, y", _datediff),
    "DATE_DIFF": (3, 3, "'unit', x, y", _datediff),
    "DATEADD": (3, 3, "unit, n, x", _dateadd),
    "DATE_ADD": (2, 3, "x, INTERVAL '1' DAY", _date_add),
    "DATE_SUB": (2, 2, "x, INTERVAL '1' DAY", _date_moved("-")),
    "SPLIT": (2, 2, "x, separator", lambda args, place: FunctionCall("STRING_TO_ARRAY", tuple(args), place)),
    "ADD_MONTHS": (2, 2, "x, n", _add_months),
    "UNIX_TIMESTAMP": (0, 2, "x", _unix_timestamp),
    "FROM_UNIXTIME": (1, 2, "seconds", _from_unixtime),
    "TO_DATE": (1, 2, "text, format", _to_date),
    "DATE_FORMAT": (2, 2, "x, pattern", _turned("TIMESTAMP_TO_CHAR")),
    "FORMAT_TIMESTAMP": (2, 2, "x, pattern", _turned("TIMESTAMP_TO_CHAR")),
    "FORMAT_DATE": (2, 2, "x, pattern", _turned("DATE_TO_CHAR")),
    "PARSE_TIMESTAMP": (2, 2, "text, pattern", _turned("CHAR_TO_TIMESTAMP")),
    "PARSE_DATE": (2, 2, "text, pattern", _turned("CHAR_TO_DATE")),
    "CONVERT_TZ": (3, 3, "x, 'from', 'to'", _convert_tz),
    "DATE_PART": (2, 2, "'unit', x", _date_part),
    **dict.fromkeys(
        ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP"), (0, 0, "", _now)
    ),
    "CURRENT_DATE": (0, 0, "", _now_as(DATE)),
    "CURRENT_TIME": (0, 0, "", _now_as(TIME)),
    "LOCALTIME": (0, 0, "", _now_as(TIME)),
}
"""Least and greatest number of arguments, the syntax of the function, and its expression."""
WRITTEN_OUT = frozenset(_FORMS)
"""Names of functions that are written as other expressions."""


def written_out(syntax: FunctionCall) -> Expression | None:
    """Return the expression of a function in ``_FORMS``; None for any other function.

    Raises:
      StatementError: it is called with too few or too many arguments.
    """
    form = _FORMS.get(syntax.name)
    if form is None:
        return None
    least, most, usage, write = form
    if len(syntax.args) < least or (most is not None and len(syntax.args) > most):
        raise StatementError(f"{syntax.name} is written {syntax.name}({usage})", span=syntax.place)
    return write(syntax.args, syntax.place)


def check_pattern(operator: str, args: Sequence[Expr], span: SourceSpan) -> None:
    """Check a constant pattern with its ESCAPE.

    Raises:
      StatementError: it is invalid.
    """
    if not all(isinstance(each, Literal) and isinstance(each.value, str) for each in args):
        return
    try:
        compile_row(Call(operator, (Literal("", VARCHAR), *args), BOOLEAN))((), 0)
    except RejectedRowError as error:
        raise StatementError(f"invalid {operator} pattern: {error.message}", span=span) from error


def _check_flags(syntax: FunctionCall, name: str, args: Sequence[Expr]) -> None:
    """Check constant flags of a regular expression."""
    flags = args[-1] if len(args) == _WITH_FLAGS.get(name) else None
    if isinstance(flags, Literal) and isinstance(flags.value, str):
        known = flags_of(name)
        if not known.issuperset(flags.value):
            raise StatementError(
                f"{name} has no flags '{flags.value}'",
                span=syntax.args[-1].place,
                hint=f"The flags are {', '.join(sorted(known))}.",
            )


def _check_numbers(syntax: FunctionCall, name: str, args: Sequence[Expr]) -> None:
    """Check the constant number of a part or group."""
    number = args[2] if name in ("SPLIT_PART", "REGEXP_EXTRACT") and len(args) == 3 else None
    if not isinstance(number, Literal) or not isinstance(number.value, int):
        return
    if name == "SPLIT_PART":
        if number.value == 0:
            hint = "1 is the first part, -1 the last."
            raise StatementError("SPLIT_PART has no part 0", span=syntax.args[2].place, hint=hint)
        return
    pattern = args[1]
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        groups = groups_of(pattern.value)
        if not 0 <= number.value <= groups:
            raise StatementError(
                f"the expression has no group {number.value}",
                span=syntax.args[2].place,
                hint=f"It has {groups} groups; 0 is the whole match.",
            )


def _is_format(text: object) -> bool:
    """Return whether a text is the format of a date rather than a date."""
    return isinstance(text, str) and bool(re.search("YY|%", text.upper())) and not any(map(str.isdigit, text))


def check_constants(syntax: FunctionCall, name: str, args: Sequence[Expr]) -> None:
    """Check a constant time format or regular expression.

    Raises:
      StatementError: it is invalid.
    """
    _check_flags(syntax, name, args)
    _check_numbers(syntax, name, args)
    if name == "SUBSTRING SIMILAR":
        check_pattern(name, args[1:], syntax.args[1].place)
    if name in JSON_PATHS and len(args) == 2:
        path = args[1]
        if isinstance(path, Literal) and isinstance(path.value, str):
            try:
                parse_path(path.value)
            except JsonPathError as error:
                raise StatementError(str(error), span=syntax.args[1].place, hint=error.hint) from error
    if name.startswith("REGEXP_") and len(args) > 1:
        pattern = args[1]
        why = (
            pattern_error(pattern.value)
            if isinstance(pattern, Literal) and isinstance(pattern.value, str)
            else None
        )
        if why is not None:
            raise StatementError(f"invalid regular expression: {why}", span=syntax.args[1].place)
    if name in (FROM_UTC, TO_UTC, FROM_TZ) and len(args) == 2:
        zone = args[1]
        if isinstance(zone, Literal) and isinstance(zone.value, str) and zone_of(zone.value) is None:
            raise StatementError(
                f'time zone "{zone.value}" does not exist',
                span=syntax.args[1].place,
                hint=did_you_mean(zone.value, zone_names()) or "Zones have names such as 'Europe/Berlin'.",
            )
    place, understood = FORMATS.get(syntax.name, (0, None))
    if understood is None or len(args) <= place:
        return
    form, text = args[place], args[1 - place] if len(args) == 2 else None
    if isinstance(text, Literal) and not isinstance(form, Literal) and _is_format(text.value):
        number = "second" if place else "first"
        raise StatementError(
            f"'{text.value}' is a format, which is the {number} argument of {syntax.name}",
            span=syntax.args[1 - place].place,
            hint=f"Write {syntax.name}({'x, format' if place else 'format, x'}).",
        )
    if isinstance(form, Literal) and isinstance(form.value, str):
        try:
            understood(form.value)
        except FormatError as error:
            raise StatementError(
                f"invalid {syntax.name} format: {error}", span=syntax.args[place].place, hint=error.hint
            ) from error
