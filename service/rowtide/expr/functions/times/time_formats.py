"""Formats of times: ``YYYY-MM-DD HH24:MI:SS.MS`` as TO_CHAR spells them, as Java does, and as STRFTIME of C does.

A format is a sequence of parts, each a field of a time or literal text. All spellings translate to
the same parts, for writing and for reading. Times are in UTC; names are English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rowtide.expr.functions.times import civil

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
REMEMBERED_FORMATS = 256
"""The number of parsed formats in the cache, for formats that are not constants."""
MOST_CHARACTERS = 1_000
"""The longest format: a message can have one, and a cache keeps what is made of it."""


class FormatError(Exception):
    """A format is invalid, or a text does not match it; the message says why, and ``hint`` what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Years:
    """How a year is read: ``missing`` is that of a format without one; two digits from ``old`` on are of 19xx."""

    missing: int = 1970
    old: int = 70


OUR_YEARS = Years()
C_YEARS = Years(missing=1900, old=69)
"""The years of ``strptime`` of C, Python and DuckDB."""


@dataclass(frozen=True, slots=True)
class DayTime:
    """A time taken apart: the day and the millisecond of the day."""

    day: int
    ms: int

    @property
    def hour(self) -> int:
        """The hour, 0 to 23."""
        return self.ms // 3_600_000


@dataclass(frozen=True, slots=True)
class FormatPart:
    """A part of a format: ``field``, or literal text where that is empty.

    ``digits`` are written at least, with zeros in front. ``style`` is how a name is written.
    """

    field: str
    digits: int = 0
    text: str = ""
    style: Callable[[str], str] = str


_NUMBERS: Mapping[str, tuple[int, int, int]] = {
    "year": (4, 1, 9999),
    "year of century": (2, 0, 99),
    "week year": (4, 1, 9999),
    "quarter": (1, 1, 4),
    "month": (2, 1, 12),
    "week": (2, 1, 53),
    "day": (2, 1, 31),
    "day of year": (3, 1, 366),
    "day of week": (1, 1, 7),
    "ISO day of week": (1, 1, 7),
    "day of week from 0": (1, 0, 6),
    "hour": (2, 0, 23),
    "hour from 1": (2, 1, 24),
    "hour of half": (2, 1, 12),
    "hour of half from 0": (2, 0, 11),
    "minute": (2, 0, 59),
    "second": (2, 0, 59),
    "fraction": (9, 0, 999_999_999),
    "second of day": (5, 0, 86_399),
    "ISO day of year": (3, 1, 371),
}
"""Fields that are numbers: the most digits, the least and the greatest value."""

_TEMPLATE: Mapping[str, FormatPart] = {
    "YYYY": FormatPart("year", 4),
    "YY": FormatPart("year of century", 2),
    "IYYY": FormatPart("week year", 4),
    "Q": FormatPart("quarter", 1),
    "MM": FormatPart("month", 2),
    "IW": FormatPart("week", 2),
    "DDD": FormatPart("day of year", 3),
    "DD": FormatPart("day", 2),
    "ID": FormatPart("ISO day of week", 1),
    "IDDD": FormatPart("ISO day of year", 3),
    "D": FormatPart("day of week", 1),
    "HH24": FormatPart("hour", 2),
    "HH12": FormatPart("hour of half", 2),
    "HH": FormatPart("hour of half", 2),
    "MI": FormatPart("minute", 2),
    "SS": FormatPart("second", 2),
    "SSSS": FormatPart("second of day", 1),
    "SSSSS": FormatPart("second of day", 1),
    "MS": FormatPart("fraction", 3),
    "US": FormatPart("fraction", 6),
    "FF3": FormatPart("fraction", 3),
    "FF6": FormatPart("fraction", 6),
    "FF": FormatPart("fraction", 3),
    "TZ": FormatPart("zone", text="UTC"),
    "OF": FormatPart("zone", text="+00"),
}
_TEMPLATE_NAMES = {
    "MONTH": "month name",
    "MON": "short month name",
    "DAY": "day name",
    "DY": "short day name",
    "AM": "half",
    "PM": "half",
}
_WORDS = sorted((*_TEMPLATE, *_TEMPLATE_NAMES), key=len, reverse=True)
_NAMES: Mapping[str, Sequence[str]] = {
    "month name": MONTHS,
    "short month name": [name[:3] for name in MONTHS],
    "day name": DAYS,
    "short day name": [name[:3] for name in DAYS],
    "half": ("AM", "PM"),
}
"""Fields that are names: what they read, in any case. None begins with another one of the same field."""

_JAVA: Mapping[str, str] = {
    "Y": "week year",
    "w": "week",
    "d": "day",
    "D": "day of year",
    "u": "ISO day of week",
    "H": "hour",
    "k": "hour from 1",
    "h": "hour of half",
    "K": "hour of half from 0",
    "m": "minute",
    "s": "second",
    "S": "fraction",
}


@lru_cache(maxsize=REMEMBERED_FORMATS)
def template(text: str) -> tuple[FormatPart, ...]:
    """Parse a format of TO_CHAR: letters are fields, text is in double quotes; FM leaves zeros out.

    Raises:
      FormatError: it is too long, or has letters that are not a field.
    """
    _refuse_long(text)
    parts: list[FormatPart] = []
    at, filled = 0, True
    upper = text.upper()
    while at < len(text):
        if text[at] == '"':
            end = text.find('"', at + 1)
            if end < 0:
                raise FormatError('a " is not closed')
            parts.append(FormatPart("", text=text[at + 1 : end]))
            at = end + 1
            continue
        if upper.startswith("FM", at):
            filled, at = False, at + 2
            continue
        word = next((each for each in _WORDS if upper.startswith(each, at)), None)
        if word is None:
            if text[at].isalnum():
                raise FormatError(f'"{text[at:]}" does not begin with a time field')
            parts.append(FormatPart("", text=text[at]))
            at += 1
            continue
        given = text[at : at + len(word)]
        part = _TEMPLATE.get(word)
        if part is None:
            part = FormatPart(_TEMPLATE_NAMES[word], style=_style(given))
        elif part.field == "zone":
            part = replace(part, style=_style(given))
        elif not filled and part.field != "fraction":
            part = replace(part, digits=1)
        parts.append(part)
        filled, at = True, at + len(word)
    return tuple(parts)


def _refuse_long(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise FormatError(f"it has more than {MOST_CHARACTERS:,} characters")


def _style(given: str) -> Callable[[str], str]:
    if given.isupper():
        return str.upper
    return str.lower if given.islower() else str


@lru_cache(maxsize=REMEMBERED_FORMATS)
def java_pattern(text: str) -> tuple[FormatPart, ...]:
    """Parse a format of Java's SimpleDateFormat: letters are fields, text is in single quotes.

    Raises:
      FormatError: it is too long, or has letters that are not a field.
    """
    _refuse_long(text)
    parts: list[FormatPart] = []
    for match in re.finditer(r"''|'((?:[^']|'')*)('?)|([A-Za-z])\3*|.", text, re.DOTALL):
        piece, letter = match.group(), match.group(3)
        if piece == "''":
            parts.append(FormatPart("", text="'"))
        elif match.group(1) is not None:
            if not match.group(2):
                raise FormatError("a ' is not closed")
            parts.append(FormatPart("", text=match.group(1).replace("''", "'")))
        elif letter is None:
            parts.append(FormatPart("", text=piece))
        else:
            parts.append(_java_part(letter, len(piece)))
    return tuple(parts)


def _java_part(letter: str, count: int) -> FormatPart:
    match letter:
        case "y":
            return FormatPart("year of century", 2) if count == 2 else FormatPart("year", count)
        case "M" | "L":
            if count > 2:
                return FormatPart("short month name" if count == 3 else "month name")
            return FormatPart("month", count)
        case "E":
            return FormatPart("day name" if count > 3 else "short day name")
        case "a":
            return FormatPart("half")
        case "Z" | "X" | "z":
            return FormatPart("zone", text={"Z": "+0000", "X": "Z", "z": "UTC"}[letter])
    field = _JAVA.get(letter)
    if field is None:
        raise FormatError(f'"{letter}" is not a time field')
    return FormatPart(field, count)


_C: Mapping[str, FormatPart] = {
    "Y": FormatPart("year", 4),
    "y": FormatPart("year of century", 2),
    "G": FormatPart("week year", 4),
    "V": FormatPart("week", 2),
    "m": FormatPart("month", 2),
    "B": FormatPart("month name"),
    **dict.fromkeys("bh", FormatPart("short month name")),
    "d": FormatPart("day", 2),
    "j": FormatPart("day of year", 3),
    "A": FormatPart("day name"),
    "a": FormatPart("short day name"),
    "u": FormatPart("ISO day of week", 1),
    "w": FormatPart("day of week from 0", 1),
    "H": FormatPart("hour", 2),
    "I": FormatPart("hour of half", 2),
    "p": FormatPart("half"),
    "M": FormatPart("minute", 2),
    "S": FormatPart("second", 2),
    "f": FormatPart("fraction", 6),
    "z": FormatPart("zone", text="+0000"),
    "Z": FormatPart("zone", text="UTC"),
    "%": FormatPart("", text="%"),
}
_C_TOGETHER = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M"}
_C_INSTEAD = {
    "c": "%F %T",
    "x": "%F",
    "X": "%T",
    "D": "%m/%d/%y",
    "r": "%I:%M:%S %p",
    "e": "%-d",
    "k": "%-H",
    "l": "%-I",
    "i": "%M",
    "s": "%S",
}
"""What to write for fields of C whose result depends on the place, and for those of other systems."""
_C_PIECE = re.compile(r"%(-?)(.?)|[^%]+", re.DOTALL)


@lru_cache(maxsize=REMEMBERED_FORMATS)
def c_format(text: str) -> tuple[FormatPart, ...]:
    """Parse a format of STRFTIME: a letter after % is a field; ``%-d`` leaves zeros out.

    Raises:
      FormatError: it is too long, or what is after % is not a field.
    """
    _refuse_long(text)
    parts: list[FormatPart] = []
    for match in _C_PIECE.finditer(text):
        minus, letter = match.groups()
        if letter is None:
            parts.append(FormatPart("", text=match.group()))
        elif letter in _C_TOGETHER and not minus:
            parts += c_format(_C_TOGETHER[letter])
        else:
            part = _C.get(letter)
            if part is None or (minus and (part.digits < 2 or part.field == "fraction")):
                instead = _C_INSTEAD.get(letter)
                known = " ".join(f"%{each}" for each in (*_C, *_C_TOGETHER))
                raise FormatError(
                    f'"{match.group()}" is not a time field',
                    f"Write {instead}." if instead else f"Fields are {known}.",
                )
            parts.append(replace(part, digits=1) if minus else part)
    return tuple(parts)


# -------------------------------------------------------------------- writing


def written(parts: Sequence[FormatPart], moment: DayTime) -> str:
    """Write a time."""
    return "".join(_piece(part, moment) for part in parts)


def day_name(day: int) -> str:
    """Return the English name of the day of the week of a day."""
    return DAYS[civil.weekday(day) - 1]


def month_name(day: int) -> str:
    """Return the English name of the month that a day is in."""
    return MONTHS[civil.civil(day)[1] - 1]


def _piece(part: FormatPart, at: DayTime) -> str:
    match part.field:
        case "":
            return part.text
        case "zone":
            return part.style(part.text)
        case "fraction":
            return f"{at.ms % 1_000:03d}{'0' * max(part.digits - 3, 0)}"[: max(part.digits, 1)]
        case "month name" | "short month name":
            name = month_name(at.day)
            return part.style(name[:3] if part.field.startswith("short") else name)
        case "day name" | "short day name":
            name = day_name(at.day)
            return part.style(name[:3] if part.field.startswith("short") else name)
        case "half":
            return part.style("AM" if at.hour < 12 else "PM")
    return f"{_number(part.field, at):0{part.digits}d}"


def _number(field: str, at: DayTime) -> int:
    year, month, day = civil.civil(at.day)
    thursday = civil.thursday(at.day)
    match field:
        case "year":
            return year
        case "year of century":
            return year % 100
        case "week year":
            return civil.civil(thursday)[0]
        case "quarter":
            return (month - 1) // 3 + 1
        case "month":
            return month
        case "ISO day of year":
            return at.day - _first_of_weeks(civil.civil(thursday)[0]) + 1
        case "second of day":
            return at.ms // 1_000
        case "week":
            return (thursday - civil.day_of(civil.civil(thursday)[0], 1, 1)) // 7 + 1
        case "day":
            return day
        case "day of year":
            return at.day - civil.day_of(year, 1, 1) + 1
        case "day of week":
            return civil.weekday(at.day, from_sunday=True)
        case "ISO day of week":
            return civil.weekday(at.day)
        case "day of week from 0":
            return civil.weekday(at.day) % 7
        case "hour":
            return at.hour
        case "hour from 1":
            return at.hour or 24
        case "hour of half":
            return at.hour % 12 or 12
        case "hour of half from 0":
            return at.hour % 12
        case "minute":
            return at.ms // 60_000 % 60
        case _:
            return at.ms // 1_000 % 60


# -------------------------------------------------------------------- reading


def read(parts: Sequence[FormatPart], text: str, years: Years = OUR_YEARS) -> DayTime:
    """Read a time; fields that the format does not have are those of midnight on January 1.

    Raises:
      FormatError: the text does not have the format, or the time does not exist.
    """
    match = _regex(tuple(parts)).fullmatch(text.strip())
    if match is None:
        raise FormatError("the text does not have the format")
    found: dict[str, int] = {}
    zone_ms = 0
    for index, part in enumerate(parts):
        if not part.field:
            continue
        piece = match.group(f"p{index}")
        if part.field == "zone":
            zone_ms = _zone_ms(piece)
            continue
        field, value = part.field, _value(part.field, piece)
        if field == "day of week from 0":
            field, value = "ISO day of week", value or 7
        if found.setdefault(field, value) != value:
            raise FormatError(f"it has two values for the {field}")
    day = _day(found, years)
    if "second of day" in found:
        _spread_seconds(found)
    ms = _hour(found) * 3_600_000 + found.get("minute", 0) * 60_000 + found.get("second", 0) * 1_000
    ms += found.get("fraction", 0) - zone_ms
    return DayTime(day + ms // civil.DAY_MS, ms % civil.DAY_MS)


_BLANKS = re.compile(r"(?:\\\s)+", re.ASCII)
"""White space as ``re.escape`` writes it."""


@lru_cache(maxsize=REMEMBERED_FORMATS)
def _regex(parts: tuple[FormatPart, ...]) -> re.Pattern[str]:
    """Return the expression for a format. Each field has one match at a place, so that the time is linear.

    With another match to try for each, a format and a text of a message could keep the process busy forever.
    White space matches any white space, and nothing at the ends.
    """
    pieces = []
    for index, part in enumerate(parts):
        if not part.field:
            pieces.append(re.escape(part.text))
            continue
        if part.field in _NUMBERS:
            # A number directly before a digit has no end marker, so it has all its digits.
            most = max(_NUMBERS[part.field][0], part.digits)
            wanted = f"{{{part.digits}}}" if _begins_with_digit(parts[index + 1 :]) else f"{{1,{most}}}"
            inside = rf"[0-9]{wanted}"
        elif part.field == "zone":
            inside = r"UTC|GMT|Z|[+-][0-9]{2}(?::?[0-9]{2})?"
        else:
            inside = rf"(?ai:{'|'.join(_NAMES[part.field])})"
        pieces.append(f"(?P<p{index}>(?>{inside}))")
    blanks = r"\s++"
    whole = _BLANKS.sub(lambda match: blanks, "".join(pieces))
    return re.compile(whole.removeprefix(blanks).removesuffix(blanks))


def _begins_with_digit(parts: Sequence[FormatPart]) -> bool:
    return bool(parts) and (parts[0].field in _NUMBERS or parts[0].text[:1].isdecimal())


def _zone_ms(text: str) -> int:
    if text in ("UTC", "GMT", "Z"):
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    length = int(digits[:2]) * 3_600_000 + int(digits[2:]) * 60_000
    return -length if text[0] == "-" else length


def _value(field: str, text: str) -> int:
    if field in _NAMES:
        return [name.upper() for name in _NAMES[field]].index(text.upper()) + 1
    if field == "fraction":
        return int(text.ljust(3, "0")[:3])
    value = int(text)
    _, least, most = _NUMBERS[field]
    if not least <= value <= most:
        raise FormatError(f"the {field} is from {least} to {most}")
    return value


def _day(found: Mapping[str, int], years: Years) -> int:
    if found.keys() & {"week", "week year", "ISO day of year"}:
        return _day_of_weeks(found)
    year = found.get("year", years.missing)
    if "year of century" in found and "year" not in found:
        short = found["year of century"]
        year = short + (1900 if short >= years.old else 2000)
    of_year = found.get("day of year")
    named = found.get("month name", found.get("short month name"))
    month = found.get("month", named or 1)
    if named is not None and month != named:
        raise FormatError("it has two values for the month")
    if of_year is not None and "day" not in found and "month" not in found and named is None:
        day = civil.day_of(year, 1, 1) + of_year - 1
        if civil.civil(day)[0] != year:
            raise FormatError("the day does not exist")
        return day
    start = (year - 1970) * 12 + month - 1
    day = civil.month_start(start) + found.get("day", 1) - 1
    if day >= civil.month_start(start + 1):
        raise FormatError("the day does not exist")
    return day


def _day_of_weeks(found: Mapping[str, int]) -> int:
    """Return the day of a year of weeks: by its number, or by week and day of week (without one: Monday)."""
    year, week, of_year = (found.get(each) for each in ("week year", "week", "ISO day of year"))
    if year is None or (week is None and of_year is None):
        raise FormatError("a week says a day only with the year of weeks that it is in")
    if found.keys() & {
        "year",
        "year of century",
        "month",
        "month name",
        "short month name",
        "day",
        "day of year",
    }:
        raise FormatError("it mixes the fields of weeks with those of months")
    first, days = _first_of_weeks(year), _first_of_weeks(year + 1) - _first_of_weeks(year)
    if of_year is None:
        of_year = 7 * ((week or 1) - 1) + found.get("ISO day of week", 1)
    elif week is not None and (of_year - 1) // 7 + 1 != week:
        raise FormatError("it has two values for the week")
    if of_year > days:
        raise FormatError("the day does not exist")
    return first + of_year - 1


def _first_of_weeks(year: int) -> int:
    """Return the Monday that a year of weeks begins with: that of the week with its first Thursday."""
    fourth = civil.day_of(year, 1, 4)
    return fourth - civil.weekday(fourth) + 1


def _spread_seconds(found: dict[str, int]) -> None:
    """Put the hour, minute and second of a second of the day in their places, unless others are there."""
    seconds = found["second of day"]
    given = {"hour": seconds // 3_600, "minute": seconds // 60 % 60, "second": seconds % 60}
    for field, value in given.items():
        if found.setdefault(field, value) != value:
            raise FormatError(f"it has two values for the {field}")


def _hour(found: Mapping[str, int]) -> int:
    if "hour" in found:
        return found["hour"]
    if "hour from 1" in found:
        return found["hour from 1"] % 24
    of_half = found.get("hour of half", found.get("hour of half from 0", 0)) % 12
    return of_half + (12 if found.get("half") == 2 else 0)
