"""Times written and read in a format, and names of days: TO_CHAR TO_TIMESTAMP TO_DATE and their like.

| name                                                    | format, text |
|---------------------------------------------------------|--------------|
| TO_CHAR(time, format)                                   | as TO_CHAR of PostgreSQL and Oracle |
| TO_TIMESTAMP(text, format), TO_DATE(text, format)       | the same |
| TIMESTAMP_TO_CHAR, DATE_TO_CHAR, TIME_TO_CHAR(format, time) | as Java's SimpleDateFormat |
| CHAR_TO_TIMESTAMP, CHAR_TO_DATE, CHAR_TO_TIME(format, text) | the same |
| STRFTIME(time, format), STRPTIME(text, format)          | as ``strftime`` of C, Python and DuckDB |
| DAYNAME(time), MONTHNAME(time)                          | |

``time_formats`` says what a format is. All are computed row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.expr.functions.times import civil
from rowtide.expr.functions.times.time_formats import (
    C_YEARS,
    OUR_YEARS,
    DayTime,
    FormatError,
    FormatPart,
    Years,
    c_format,
    day_name,
    java_pattern,
    month_name,
    read,
    template,
    written,
)
from rowtide.rows.types import DATE, TIME, TIMESTAMP, Kind, Type

FORMATS: dict[str, tuple[int, Callable[[str], tuple[FormatPart, ...]]]] = {
    **dict.fromkeys(("TO_CHAR", "TO_TIMESTAMP", "TO_DATE"), (1, template)),
    **dict.fromkeys(("TIMESTAMP_TO_CHAR", "DATE_TO_CHAR", "TIME_TO_CHAR"), (0, java_pattern)),
    **dict.fromkeys(("CHAR_TO_TIMESTAMP", "CHAR_TO_DATE", "CHAR_TO_TIME"), (0, java_pattern)),
    **dict.fromkeys(("STRFTIME", "STRPTIME"), (1, c_format)),
}
"""Functions with a format: which argument it is, and how it is understood."""


def _moment(kind: Type, value: int) -> DayTime:
    if kind == TIMESTAMP:
        return DayTime(*divmod(value, civil.DAY_MS))
    return DayTime(value, 0) if kind == DATE else DayTime(0, value)


def _writing(name: str, kinds: Sequence[Type]) -> ScalarFunction:
    place, understood = FORMATS[name]

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or not args[place].is_text or args[1 - place] not in kinds:
            raise mismatch(name, args, hint=f"Write {name}({'x, format' if place else 'format, x'}).")
        return Type(Kind.VARCHAR)

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.args[1 - place]

        def write(*args: Any) -> str:
            try:
                return written(understood(args[place]), _moment(kind, args[1 - place]))
            except FormatError as error:
                raise undefined(name, args, str(error)) from error

        return write

    return strict(name, resolve, row, lambda signature: None)


def _reading(name: str, result: Type, years: Years = OUR_YEARS) -> ScalarFunction:
    place, understood = FORMATS[name]
    low, high = civil.RANGES[result]

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or not all(each.is_text for each in args):
            raise mismatch(name, args, hint=f"Write {name}({'text, format' if place else 'format, text'}).")
        return result

    def from_text(*args: str) -> int:
        try:
            moment = read(understood(args[place]), args[1 - place], years)
        except FormatError as error:
            raise undefined(name, args, str(error)) from error
        value = moment.day if result == DATE else moment.ms
        if result == TIMESTAMP:
            value += moment.day * civil.DAY_MS
        if not low <= value <= high:
            raise overflow(name, args, result)
        return value

    return strict(name, resolve, lambda signature: from_text, lambda signature: None)


def _name(name: str, of_day: Callable[[int], str]) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or args[0] not in (TIMESTAMP, DATE):
            raise mismatch(name, args)
        return Type(Kind.VARCHAR, 9)

    def row(signature: CallSignature) -> RowKernel:
        length = 1 if signature.args[0] == DATE else civil.DAY_MS
        return lambda value: of_day(value // length)

    return strict(name, resolve, row, lambda signature: None)


TIMES_AS_TEXT: Sequence[ScalarFunction] = (
    _writing("TO_CHAR", (TIMESTAMP, DATE, TIME)),
    _writing("STRFTIME", (TIMESTAMP, DATE, TIME)),
    _writing("TIMESTAMP_TO_CHAR", (TIMESTAMP,)),
    _writing("DATE_TO_CHAR", (DATE,)),
    _writing("TIME_TO_CHAR", (TIME,)),
    _reading("TO_TIMESTAMP", TIMESTAMP),
    _reading("TO_DATE", DATE),
    _reading("STRPTIME", TIMESTAMP, C_YEARS),
    _reading("CHAR_TO_TIMESTAMP", TIMESTAMP),
    _reading("CHAR_TO_DATE", DATE),
    _reading("CHAR_TO_TIME", TIME),
    _name("DAYNAME", day_name),
    _name("MONTHNAME", month_name),
)
