"""Times of JSON as a column declares them: numbers of a unit since 1970, and text of a pattern.

See docs/sql/streams.md#json.
"""

from __future__ import annotations

from decimal import Decimal

from rowtide.codec.json.values import FromJson, NotOfTypeError
from rowtide.expr.functions.times.time_formats import FormatError, FormatPart, read
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

NANOSECONDS = {"d": 86_400_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""The units that a column's times may be counted in."""
DAY_MS = 86_400_000


def units_of(kind: Type) -> tuple[str, ...]:
    """Return the units that numbers of a column of type ``kind`` may have; empty if it is not a time."""
    match kind.kind:
        case Kind.DATE:
            return ("d", "s", "ms", "us", "ns")
        case Kind.TIMESTAMP | Kind.INSTANT | Kind.TIME:
            return ("s", "ms", "us", "ns")
        case _:
            return ()


def counted(kind: Type, unit: str) -> FromJson:
    """Return the function that converts numbers of ``unit`` to ``kind``; finer digits are cut."""
    nanoseconds = NANOSECONDS[unit]
    grain = NANOSECONDS["d"] if kind.kind is Kind.DATE else NANOSECONDS["ms"]
    low, high = (0, DAY_MS - 1) if kind.kind is Kind.TIME else (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
    limits = (low * NANOSECONDS["ms"], (high + 1) * NANOSECONDS["ms"] - 1)
    said = "a time of day" if kind.kind is Kind.TIME else "within the years 1 to 9999"

    def convert(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise NotOfTypeError
        # Compare a Decimal before multiplying it, because its exponent may be too large.
        loosely = value * nanoseconds if isinstance(value, int) else value
        if not limits[0] <= loosely <= limits[1]:
            raise NotOfTypeError(f"it is not {said}")
        if isinstance(value, int):
            return value * nanoseconds // grain
        numerator, denominator = _ratio(value)
        if not limits[0] * denominator <= numerator * nanoseconds <= limits[1] * denominator:
            raise NotOfTypeError(f"it is not {said}")
        return numerator * nanoseconds // (grain * denominator)

    return convert


def _ratio(value: Decimal) -> tuple[int, int]:
    if value.adjusted() < -30:
        # Digits finer than any unit are cut.
        return (-1 if value.is_signed() and value else 0), 10**30
    return value.as_integer_ratio()


def patterned(kind: Type, parts: tuple[FormatPart, ...]) -> FromJson:
    """Return the function that converts text of a pattern to ``kind``."""

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise NotOfTypeError
        try:
            moment = read(parts, value)
        except FormatError as error:
            raise NotOfTypeError(str(error)) from None
        if kind.kind is Kind.DATE:
            return moment.day
        if kind.kind is Kind.TIME:
            return moment.ms
        millis = moment.day * DAY_MS + moment.ms
        if not MIN_TIMESTAMP_MS <= millis <= MAX_TIMESTAMP_MS:
            raise NotOfTypeError("it is not within the years 1 to 9999")
        return millis

    return convert
