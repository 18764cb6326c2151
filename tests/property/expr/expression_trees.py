"""Random typed expressions and random rows for them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal

from hypothesis import strategies as st

from rowtide.expr.functions import FUNCTIONS, TypeMismatch, cast_allowed
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.column import scaled
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
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
    DATE,
    TIME,
    TIMESTAMP,
    INTERVAL_DAY,
    INTERVAL_MONTH,
)
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND", "EPOCH", "?")
TIMES = (DATE, TIME, TIMESTAMP, INTERVAL_DAY, INTERVAL_MONTH)
ROW_TYPE = RowType(tuple(Field(f"F{index}", kind) for index, kind in enumerate(TYPES)))

TEXTS = st.one_of(
    st.text(alphabet="ab%_\\ \n1.-éßİΣ", max_size=5),
    st.sampled_from(
        ["", " 12 ", "-7", "1.5", "1e3", "9" * 20, "true", " FALSE", "2024-02-29", "23:59:59.5", "12:00:00"]
    ),
    st.sampled_from(["2024-02-29 12:34:56.789", "1969-12-31T23:59:59Z", "0x1F", "nan", "inf", "1e400", "+5"]),
)


def values(kind: Type) -> st.SearchStrategy[object]:
    """Give values of a type in row form, the edges often."""
    if kind.is_integer:
        bits = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}[kind.kind]
        edges = st.sampled_from([0, 1, -1, 2, 7, -(2**bits), 2**bits - 1])
        return edges | st.integers(-20, 20) | st.integers(-(2**bits), 2**bits - 1)
    if kind.is_text:
        length = kind.precision
        return TEXTS if length is None else TEXTS.map(lambda text: text[:length])
    if kind.is_binary:
        return st.binary(max_size=kind.precision)
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
        case Kind.TIMESTAMP:
            edges = st.sampled_from([0, -1, 1_709_210_096_789, -62_135_596_800_000, 253_402_300_799_999])
            return edges | st.integers(-62_135_596_800_000, 253_402_300_799_999)
        case Kind.INTERVAL_DAY:
            edges = st.sampled_from([0, 1, 60_000, 86_400_000, -3_600_000, 2**63 - 1, -(2**63)])
            return edges | st.integers(-(10**10), 10**10)
        case _:
            return st.sampled_from([0, 1, -13, 12, 2**63 - 1, -(2**63)]) | st.integers(-100, 100)


@st.composite
def timed_rows(draw: st.DrawFn) -> list[TimedRow]:
    """Give some rows of ``ROW_TYPE``, a fifth of the values NULL."""
    count = draw(st.integers(0, 6))
    nullable = [st.one_of([st.none(), *[values(kind)] * 4]) for kind in TYPES]
    rows = []
    for counter in range(count):
        row = tuple(draw(each) for each in nullable)
        rows.append(TimedRow(draw(values(TIMESTAMP)), 0, counter, 1, row))
    return rows


def results(args: Sequence[Type]) -> list[tuple[str, Type]]:
    """Give the functions that take arguments of these types, with their types."""
    found = []
    for name, function in FUNCTIONS.items():
        try:
            kind = function.resolve(args)
        except TypeMismatch:
            continue
        if name != "CAST":
            found.append((name, kind))
    if len(args) == 1:
        found += [("CAST", target) for target in TYPES if cast_allowed(args[0], target)]
    return found


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Give an expression over ``ROW_TYPE``."""
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        leaf = draw(st.integers(0, 20))
        if leaf == 0:
            return RowtimeRef()
        kind = draw(st.sampled_from(TYPES))
        if leaf < 8:
            return Literal(draw(st.one_of([st.none(), *[values(kind)] * 5])), kind)
        return FieldRef(TYPES.index(kind), kind)
    count = draw(st.sampled_from([1, 1, 2, 2, 2, 2, 3]))
    args: list[Expr] = [draw(expressions(depth - 1)) for _ in range(count)]
    if draw(st.booleans()):
        # Functions of several arguments mostly want them alike.
        args = [args[0], *(_like(draw, args[0].type) for _ in args[1:])]
    if count == 3 and args[0].type != BOOLEAN and draw(st.booleans()):
        args[0] = Call("IS NOT NULL", (args[0],), BOOLEAN)
        args[2] = _like(draw, args[1].type)
    if args[0].type in TIMES and draw(st.booleans()):
        unit = Literal(draw(st.sampled_from(UNITS)), VARCHAR)
        if args[0].type in (DATE, TIMESTAMP) and draw(st.booleans()):
            return Call(draw(st.sampled_from(["FLOOR_TO", "CEIL_TO"])), (args[0], unit), args[0].type)
        return Call("EXTRACT", (unit, args[0]), BIGINT)
    names = results([arg.type for arg in args])
    if not names:
        return args[0]
    name, kind = draw(st.sampled_from(names))
    return Call(name, tuple(args), kind)


def _like(draw: st.DrawFn, kind: Type) -> Expr:
    if kind in TYPES and draw(st.booleans()):
        return FieldRef(TYPES.index(kind), kind)
    return Literal(draw(values(kind)), kind)


def bits(value: object) -> object:
    """Give something that is equal only for values that are the same, bit for bit."""
    match value:
        case float():
            return "nan" if math.isnan(value) else struct.pack("d", value)
        case Decimal():
            return value.as_tuple()
        case _:
            return type(value), value
