"""Random typed expressions and random rows for them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any, cast

from hypothesis import strategies as st

from rowtide.expr.functions import FUNCTIONS, TypeMismatch, cast_allowed
from rowtide.expr.functions.times.times_as_text import FORMATS
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.arrays_as_text import as_element
from rowtide.rows.column import scaled
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    JSON,
    TIME,
    TIMESTAMP,
    UUID,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    array_of,
    decimal,
)

REAL = Type(Kind.REAL)
TINYINT = Type(Kind.TINYINT)
SMALLINT = Type(Kind.SMALLINT)

TYPES = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INTEGER,
    BIGINT,
    REAL,
    DOUBLE,
    decimal(4, 2),
    decimal(18, 6),
    decimal(25, 3),
    decimal(38, 0),
    decimal(38, 38),
    VARCHAR,
    Type(Kind.VARCHAR, 5),
    Type(Kind.CHAR, 3),
    Type(Kind.VARBINARY, 4),
    Type(Kind.BINARY, 2),
    UUID,
    JSON,
    DATE,
    TIME,
    TIMESTAMP,
    INSTANT,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    array_of(INTEGER),
    array_of(DOUBLE),
    array_of(Type(Kind.VARCHAR, 5)),
)
UNITS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "ISODOW", "ISOYEAR", "DECADE", "CENTURY"),
    *("HOUR", "MINUTE", "SECOND", "EPOCH", "?"),
)
TIME_FORMATS = (
    "YYYY-MM-DD",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "FMDay DD Mon YY HH12:MI am",
    "H:mm a",
    "%F %T.%f %p",
    "?",
)
ROW_TYPE = RowType(tuple(Field(f"F{index}", kind) for index, kind in enumerate(TYPES)))

TEXTS = st.one_of(
    st.text(alphabet="ab%_\\ \n1.-éßİΣ", max_size=5),
    st.sampled_from(
        [
            "",
            " 12 ",
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "[1]",
            "-7",
            "1.5",
            "1e3",
            "9" * 20,
            "true",
            " FALSE",
            "2024-02-29",
            "23:59:59.5",
            "12:00:00",
        ]
    ),
    st.sampled_from(["2024-02-29 12:34:56.789", "1969-12-31T23:59:59Z", "0x1F", "nan", "inf", "1e400", "+5"]),
)


def values(kind: Type) -> st.SearchStrategy[object]:
    """Return values of a type in row form, the edges often."""
    if kind.element is not None:
        elements = st.none() | values(kind.element).map(as_element)
        return st.lists(elements, max_size=3).map(tuple)
    if kind.is_integer:
        bits = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}[kind.kind]
        edges = st.sampled_from([0, 1, -1, 2, 7, -(2**bits), 2**bits - 1])
        return edges | st.integers(-20, 20) | st.integers(-(2**bits), 2**bits - 1)
    if kind.is_text:
        length = kind.precision
        return TEXTS if length is None else TEXTS.map(lambda text: text[:length])
    if kind.is_binary:
        return st.binary(max_size=kind.precision)
    if kind == UUID:
        return st.sampled_from(
            ("00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
        )
    if kind == JSON:
        return st.sampled_from(('{"a": [1.50, null]}', "[]", "null", '"a"', "7"))
    match kind.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.REAL:
            return st.sampled_from([0.0, -0.0, 1.0, -1.5, math.inf, math.nan]) | st.floats(width=32)
        case Kind.DOUBLE:
            edges = st.sampled_from([0.0, -0.0, 0.5, -2.5, 1e308, 2.0**53, 0.285, math.inf, math.nan])
            return edges | st.floats(-1000, 1000) | st.floats()
        case Kind.DECIMAL:
            scale, limit = kind.scale, 10 ** (kind.precision or 38) - 1
            whole = st.sampled_from([0, 1, -1, 50, limit, -limit]) | st.integers(-limit, limit)
            return whole.map(lambda number: scaled(number, scale))
        case Kind.DATE:
            return st.sampled_from([0, -1, 11016, 19782, -719162, 2932896]) | st.integers(-719162, 2932896)
        case Kind.TIME:
            return st.integers(0, 86_399_999)
        case Kind.TIMESTAMP | Kind.INSTANT:
            edges = st.sampled_from([0, -1, 1_709_210_096_789, -62_135_596_800_000, 253_402_300_799_999])
            return edges | st.integers(-62_135_596_800_000, 253_402_300_799_999)
        case Kind.INTERVAL_DAY:
            edges = st.sampled_from([0, 1, 60_000, 86_400_000, -3_600_000, 2**63 - 1, -(2**63)])
            return edges | st.integers(-(10**10), 10**10)
        case _:
            return st.sampled_from([0, 1, -13, 12, 2**63 - 1, -(2**63)]) | st.integers(-100, 100)


@st.composite
def timed_rows(draw: st.DrawFn) -> list[TimedRow]:
    """Return some rows of ``ROW_TYPE``, a fifth of the values NULL."""
    count = draw(st.integers(0, 6))
    nullable = [st.one_of([st.none(), *[values(kind)] * 4]) for kind in TYPES]
    rows = []
    for counter in range(count):
        row = tuple(draw(each) for each in nullable)
        rows.append(TimedRow(cast("int", draw(values(TIMESTAMP))), 0, counter, 1, row))
    return rows


@dataclass(frozen=True)
class Use:
    """A function with types that it takes, and the type that comes out."""

    name: str
    args: tuple[Type, ...]
    result: Type


def _uses() -> Iterator[Use]:
    few = (BOOLEAN, INTEGER, DOUBLE, decimal(4, 2), VARCHAR, TIMESTAMP, INTERVAL_DAY)
    arguments = [
        *product(TYPES, repeat=1),
        *product(TYPES, repeat=2),
        *product(few, repeat=3),
        (VARCHAR, VARCHAR, INTEGER, INTEGER),
        (VARCHAR, VARCHAR, VARCHAR, VARCHAR),
        (DOUBLE, decimal(4, 2), INTEGER, SMALLINT),
        (BOOLEAN, INTEGER, BOOLEAN, decimal(4, 2), BIGINT),
        *((each,) * 4 for each in (TIMESTAMP, DATE, TIME)),
        (TIMESTAMP, DATE, TIMESTAMP, TIMESTAMP),
    ]
    for name, function in FUNCTIONS.items():
        if name != function.name:
            continue
        for args in arguments:
            if name in ("CAST", "TRY_CAST") and len(args) == 2:
                if cast_allowed(*args):
                    yield Use(name, args[:1], args[1])
                continue
            try:
                yield Use(name, args, function.resolve(args))
            except TypeMismatch:
                continue


def _by(uses: Iterable[Use], key: Callable[[Use], Any]) -> dict[Any, list[Use]]:
    found: dict[Any, list[Use]] = {}
    for use in uses:
        found.setdefault(key(use), []).append(use)
    return found


USES = list(_uses())
BY_NAME = _by(USES, lambda use: use.name)
BY_RESULT = {
    kind: _by(uses, lambda use: use.name) for kind, uses in _by(USES, lambda use: use.result).items()
}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Return an expression over ``ROW_TYPE``, every function as often as any other."""
    return _call(draw, draw(st.sampled_from(BY_NAME[draw(st.sampled_from(sorted(BY_NAME)))])), depth)


@st.composite
def calls(draw: st.DrawFn, name: str, depth: int = 1) -> Expr:
    """Return a call of one function, over fields and constants unless ``depth`` is more."""
    return _call(draw, draw(st.sampled_from(BY_NAME[name])), depth)


def _call(draw: st.DrawFn, use: Use, depth: int) -> Call:
    args = [_of_type(draw, kind, depth - 1) for kind in use.args]
    if use.name == "EXTRACT":
        args[0] = Literal(draw(st.sampled_from(UNITS)), VARCHAR)
    if use.name in ("FLOOR_TO", "CEIL_TO"):
        args[1] = Literal(draw(st.sampled_from(UNITS)), VARCHAR)
    if use.name in FORMATS:
        args[FORMATS[use.name][0]] = Literal(draw(st.sampled_from(TIME_FORMATS)), VARCHAR)
    return Call(use.name, tuple(args), use.result)


def _of_type(draw: st.DrawFn, kind: Type, depth: int) -> Expr:
    """Return an expression of a type out of ``TYPES``."""
    sort = draw(st.integers(0, 9))
    if depth > 0 and sort >= 5:
        by_name = BY_RESULT[kind]
        use = draw(st.sampled_from(by_name[draw(st.sampled_from(sorted(by_name)))]))
        return _call(draw, use, depth)
    if depth > 0 and sort == 4:
        # What no function gives for a type of the list: a DECIMAL(22, 5), say.
        inner = draw(expressions(depth))
        if cast_allowed(inner.type, kind):
            return Call("CAST", (inner,), kind)
    if kind == TIMESTAMP and sort == 3:
        return RowtimeRef()
    if sort in (1, 2):
        return Literal(draw(st.one_of([st.none(), *[values(kind)] * 5])), kind)
    return FieldRef(TYPES.index(kind), kind)


@st.composite
def of_type(draw: st.DrawFn, kind: Type, depth: int) -> Expr:
    """Return an expression of any type; only NULL for types outside ``TYPES``."""
    return _of_type(draw, kind, depth) if kind in TYPES else Literal(None, kind)


def bits(value: object) -> object:
    """Return something that is equal only for values that are the same, bit for bit."""
    match value:
        case float():
            return "nan" if math.isnan(value) else struct.pack("d", value)
        case Decimal():
            return value.as_tuple()
        case tuple():
            return tuple, tuple(map(bits, value))
        case _:
            return type(value), value
