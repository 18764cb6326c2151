"""What SQL engines agree on, DuckDB gives too: a second opinion from somebody else's code.

Left out is where the two differ on purpose: NULL for x / 0, doubles for / of
integers, half to even in casts of doubles, NULLs that GREATEST skips.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from property.expr.expression_trees import values
from property.expr.shared_calls import CALLS
from property.expr.shared_functions import NAMES, REJECTED, Shared, answers, differences
from property.expr.shared_functions import given as given_rows
from rowtide.errors import RejectedRowError
from rowtide.expr.functions import resolve
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)

PRICE, RATE = decimal(10, 2), decimal(8, 3)
ASCII = st.text(alphabet="abAB%_ 1x", max_size=6)
EPOCH = datetime(1970, 1, 1)
MOMENTS = st.integers(-4_000_000_000_000, 8_000_000_000_000)


def call(name: str, *args: Expr) -> Call:
    return Call(name, args, resolve(name, [arg.type for arg in args]))


def cast(arg: Expr, to: Type) -> Call:
    return Call("CAST", (arg,), to)


def text(value: str) -> Literal:
    return Literal(value, VARCHAR)


@dataclass(frozen=True)
class Case:
    """One expression in both languages; ``$1`` and ``$2`` are the fields."""

    duckdb: str
    ours: Expr
    types: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{self.duckdb} of {', '.join(map(str, self.types))}"


def binary(sql: str, name: str, first: Type, second: Type) -> Case:
    return Case(sql, call(name, FieldRef(0, first), FieldRef(1, second)), (first, second))


def unary(sql: str, name: str, kind: Type) -> Case:
    return Case(sql, call(name, FieldRef(0, kind)), (kind,))


I1, I2 = FieldRef(0, INTEGER), FieldRef(1, INTEGER)
T1, T2 = FieldRef(0, VARCHAR), FieldRef(1, VARCHAR)
P1, M1, D1 = FieldRef(0, PRICE), FieldRef(0, TIMESTAMP), FieldRef(0, DATE)

CASES = (
    binary("levenshtein($1, $2)", "LEVENSHTEIN", VARCHAR, VARCHAR),
    *(binary(f"$1 {op} $2", op, INTEGER, INTEGER) for op in ("+", "-", "*")),
    *(binary(f"$1 {op} $2", op, BIGINT, BIGINT) for op in ("+", "-", "*")),
    *(binary(f"$1 {op} $2", op, PRICE, RATE) for op in ("+", "-", "*")),
    *(binary(f"$1 {op} $2", op, DOUBLE, DOUBLE) for op in ("+", "-", "*")),
    binary("$1 // nullif($2, 0)", "/", INTEGER, INTEGER),
    binary("$1 % nullif($2, 0)", "%", INTEGER, INTEGER),
    unary("-$1", "NEGATE", INTEGER),
    unary("abs($1)", "ABS", BIGINT),
    unary("sign($1)", "SIGN", PRICE),
    *(binary(f"$1 {op} $2", op, PRICE, RATE) for op in ("=", "<>", "<", "<=", ">", ">=")),
    *(binary(f"$1 {op} $2", op, INTEGER, BIGINT) for op in ("=", "<", ">=")),
    *(binary(f"$1 {op} $2", op, VARCHAR, VARCHAR) for op in ("=", "<>", "<", ">=")),
    *(binary(f"$1 {op} $2", op, DATE, TIMESTAMP) for op in ("=", "<")),
    *(
        binary(f"$1 {op} $2", op, INSTANT, other)
        for op, other in (("=", INSTANT), ("<", TIMESTAMP), (">=", DATE))
    ),
    binary("$1 IS DISTINCT FROM $2", "IS DISTINCT FROM", INTEGER, INTEGER),
    binary("$1 IS NOT DISTINCT FROM $2", "IS NOT DISTINCT FROM", VARCHAR, VARCHAR),
    *(binary(f"$1 {op} $2", op, BOOLEAN, BOOLEAN) for op in ("AND", "OR")),
    unary("NOT $1", "NOT", BOOLEAN),
    *(
        unary(f"$1 IS {no}{test}", f"IS {no}{test}", BOOLEAN)
        for no in ("", "NOT ")
        for test in ("NULL", "TRUE", "FALSE")
    ),
    binary("nullif($1, $2)", "NULLIF", INTEGER, INTEGER),
    binary("coalesce($1, $2)", "COALESCE", VARCHAR, VARCHAR),
    Case(
        "CASE WHEN $1 > $2 THEN $1 ELSE $2 END", call("CASE", call(">", I1, I2), I1, I2), (INTEGER, INTEGER)
    ),
    binary("$1 || $2", "||", VARCHAR, VARCHAR),
    binary("$1 LIKE $2", "LIKE", VARCHAR, VARCHAR),
    Case("$1 LIKE $2 ESCAPE 'x'", call("LIKE", T1, T2, text("x")), (VARCHAR, VARCHAR)),
    Case("$1 LIKE 'a%b_'", call("LIKE", T1, text("a%b_")), (VARCHAR,)),
    binary("$1 ILIKE $2", "ILIKE", VARCHAR, VARCHAR),
    Case("$1 ILIKE 'A%b_'", call("ILIKE", T1, text("A%b_")), (VARCHAR,)),
    binary("$1 & $2", "&", INTEGER, INTEGER),
    binary("$1 | $2", "|", BIGINT, BIGINT),
    binary("xor($1, $2)", "#", INTEGER, INTEGER),
    unary("~$1", "~", BIGINT),
    unary("bit_count($1)", "BIT_COUNT", INTEGER),
    Case("$1 >> 3", call(">>", I1, Literal(3, INTEGER)), (INTEGER,)),
    *(unary(f"{name.lower()}($1)", name, VARCHAR) for name in ("MD5", "SHA1", "SHA256", "HEX")),
    unary("base64(encode($1))", "TO_BASE64", VARCHAR),
    Case(
        "hex(from_base64(base64(encode($1))))",
        call("HEX", call("FROM_BASE64", call("TO_BASE64", T1))),
        (VARCHAR,),
    ),
    Case("hex(unhex(hex($1)))", call("HEX", call("UNHEX", call("HEX", T1))), (VARCHAR,)),
    Case("url_decode(url_encode($1))", call("URL_DECODE", call("URL_ENCODE", T1)), (VARCHAR,)),
    Case("concat_ws('-', $1, $2, 'x')", call("CONCAT_WS", text("-"), T1, T2, text("x")), (VARCHAR, VARCHAR)),
    Case("concat_ws($1, 'x', $2)", call("CONCAT_WS", T1, text("x"), T2), (VARCHAR, VARCHAR)),
    *(
        Case(
            f"nullif(regexp_extract($1, '([aA]+)(?:b|_)([%1]*)', {group}), '')",
            call(
                "NULLIF",
                call("REGEXP_EXTRACT", T1, text("([aA]+)(?:b|_)([%1]*)"), Literal(group, INTEGER)),
                text(""),
            ),
            (VARCHAR,),
        )
        for group in (0, 1, 2)
    ),
    binary("gcd($1, $2)", "GCD", INTEGER, INTEGER),
    Case(
        "lcm($1 % 1000, $2 % 1000)",
        call("LCM", *(call("%", each, Literal(1000, INTEGER)) for each in (I1, I2))),
        (INTEGER, INTEGER),
    ),
    Case(
        "factorial(abs($1 % 20))",
        call("FACTORIAL", call("ABS", call("%", I1, Literal(20, INTEGER)))),
        (INTEGER,),
    ),
    Case(
        "make_date(2000 + $1 % 50, $2, 28)",
        call(
            "MAKE_DATE",
            call("+", Literal(2000, INTEGER), call("%", I1, Literal(50, INTEGER))),
            I2,
            Literal(28, INTEGER),
        ),
        (INTEGER, INTEGER),
    ),
    Case(
        "make_timestamp(2024, 2, $1, $2, 5, 6.25)",
        call(
            "MAKE_TIMESTAMP",
            *(Literal(n, INTEGER) for n in (2024, 2)),
            I1,
            I2,
            Literal(5, INTEGER),
            Literal(6.25, DOUBLE),
        ),
        (INTEGER, INTEGER),
    ),
    unary("upper($1)", "UPPER", VARCHAR),
    unary("lower($1)", "LOWER", VARCHAR),
    unary("length($1)", "CHAR_LENGTH", VARCHAR),
    unary("trim($1, ' ')", "TRIM", VARCHAR),
    Case("ltrim($1, 'ab')", call("LTRIM", T1, text("ab")), (VARCHAR,)),
    Case("rtrim($1, 'ab')", call("RTRIM", T1, text("ab")), (VARCHAR,)),
    binary("position($1 IN $2)", "POSITION", VARCHAR, VARCHAR),
    Case("replace($1, $2, 'xy')", call("REPLACE", T1, T2, text("xy")), (VARCHAR, VARCHAR)),
    Case("substring($1, 2, 3)", call("SUBSTRING", T1, Literal(2, INTEGER), Literal(3, INTEGER)), (VARCHAR,)),
    unary("floor($1)", "FLOOR", PRICE),
    unary("ceil($1)", "CEIL", PRICE),
    unary("floor($1)", "FLOOR", DOUBLE),
    unary("round($1)", "ROUND", DOUBLE),
    Case("round($1, 1)", call("ROUND", P1, Literal(1, INTEGER)), (PRICE,)),
    Case("CAST($1 AS DECIMAL(9, 1))", cast(P1, decimal(9, 1)), (PRICE,)),
    Case("CAST($1 AS DECIMAL(3, 1))", cast(P1, decimal(3, 1)), (PRICE,)),
    Case("CAST($1 AS INTEGER)", cast(P1, INTEGER), (PRICE,)),
    Case("CAST($1 AS SMALLINT)", cast(I1, Type(Kind.SMALLINT)), (INTEGER,)),
    Case("CAST($1 AS DOUBLE)", cast(P1, DOUBLE), (PRICE,)),
    Case("CAST($1 AS VARCHAR)", cast(P1, VARCHAR), (PRICE,)),
    Case("CAST($1 AS VARCHAR)", cast(I1, VARCHAR), (INTEGER,)),
    Case("CAST($1 AS VARCHAR)", cast(D1, VARCHAR), (DATE,)),
    Case("CAST(CAST($1 AS VARCHAR) AS TIMESTAMP)", cast(cast(M1, VARCHAR), TIMESTAMP), (TIMESTAMP,)),
    Case("CAST($1 AS DATE)", cast(M1, DATE), (TIMESTAMP,)),
    Case("CAST($1 AS DATE)", cast(FieldRef(0, INSTANT), DATE), (INSTANT,)),
    Case(
        "CAST(CAST($1 AS VARCHAR) AS TIMESTAMPTZ)",
        cast(cast(FieldRef(0, INSTANT), VARCHAR), INSTANT),
        (INSTANT,),
    ),
    *(
        Case("$1 AT TIME ZONE 'Europe/Berlin'", call(name, FieldRef(0, kind), text("Europe/Berlin")), (kind,))
        for name, kind in (("FROM_UTC_TIMESTAMP", INSTANT), ("FROM_TZ", TIMESTAMP))
    ),
    *(
        Case(f"extract({part} FROM $1)", call("EXTRACT", text(unit), M1), (TIMESTAMP,))
        for unit, part in (
            ("YEAR", "year"),
            ("QUARTER", "quarter"),
            ("MONTH", "month"),
            ("WEEK", "week"),
            ("DAY", "day"),
            ("DOY", "doy"),
            ("HOUR", "hour"),
            ("MINUTE", "minute"),
            ("SECOND", "second"),
        )
    ),
    *(
        Case(f"date_trunc('{unit}', $1)", call("FLOOR_TO", M1, text(unit)), (TIMESTAMP,))
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    ),
    Case(
        "$1 + to_months($2)",
        call("+", M1, cast(FieldRef(1, Type(Kind.TINYINT)), INTERVAL_MONTH)),
        (TIMESTAMP, Type(Kind.TINYINT)),
    ),
    Case(
        "$1 - to_milliseconds($2)",
        call("-", M1, cast(FieldRef(1, INTEGER), INTERVAL_DAY)),
        (TIMESTAMP, INTEGER),
    ),
)


DIFFERENT = {
    # Ours rejects a row where DuckDB's answer is NULL, a wider type, or FALSE.
    ("$1 // nullif($2, 0)", REJECTED),
    ("$1 % nullif($2, 0)", REJECTED),
    ("-$1", REJECTED),
    ("$1 LIKE $2 ESCAPE 'x'", REJECTED),
}


def argument(kind: Type) -> st.SearchStrategy[object]:
    given = {VARCHAR: ASCII, TIMESTAMP: MOMENTS, INSTANT: MOMENTS, DATE: st.integers(-40_000, 90_000)}.get(
        kind
    )
    if kind == DOUBLE:
        given = st.floats(-1e6, 1e6) | st.integers(-100, 100).map(lambda number: number / 2)
    return st.one_of(st.none(), *[values(kind) if given is None else given] * 6)


def spelled(value: object, kind: Type) -> object:
    """Return a value of ours as DuckDB's client takes and gives it."""
    if value is None:
        return None
    match kind.kind:
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(milliseconds=value)  # type: ignore[arg-type]
        case Kind.INSTANT:
            return EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=value)  # type: ignore[arg-type]
        case Kind.DATE:
            return date(1970, 1, 1) + timedelta(days=value)  # type: ignore[arg-type]
        case _:
            return value


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connected = duckdb.connect()
    connected.execute("SET TimeZone = 'UTC'")
    return connected


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.duckdb} of {', '.join(map(str, case.types))}"
)
@settings(max_examples=25)
@given(data=st.data())
def test_duckdb_gives_the_same(
    case: Case, data: st.DataObject, connection: duckdb.DuckDBPyConnection
) -> None:
    row = tuple(data.draw(argument(kind)) for kind in case.types)
    sql = case.duckdb
    for number, kind in enumerate(case.types, 1):
        sql = sql.replace(f"${number}", f"CAST(${number} AS {kind})")
    given = {
        str(number): spelled(value, kind)
        for number, (value, kind) in enumerate(zip(row, case.types, strict=True), 1)
    }
    theirs: object
    try:
        (theirs,) = connection.execute(f"SELECT {sql}", given).fetchone() or (None,)
    except duckdb.Error:
        theirs = REJECTED
    try:
        ours = spelled(compile_row(case.ours)(row, 0), case.ours.type)
    except RejectedRowError:
        ours = REJECTED
    assume((case.duckdb, ours) not in DIFFERENT)
    # DuckDB refuses the remainder of the least INTEGER by -1, which is 0.
    assume(row != (-(2**31), -1))
    assert ours == theirs


THEIR_ERRORS = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)


def computed(connection: duckdb.DuckDBPyConnection, shared: Shared, kind: Type) -> list[object]:
    """Return what DuckDB returns for each row: of an error, REJECTED."""
    names = NAMES[: len(shared.types)]
    one = ", ".join(f"CAST(? AS {str(each).replace(' ARRAY', '[]')})" for each in shared.kinds)
    result = str(kind).replace(" ARRAY", "[]")
    source = f"(VALUES {{}}) AS v (n, {', '.join(names)})"
    query = f"SELECT CAST({shared.spelled('duckdb')} AS {result}) FROM {source} ORDER BY n"

    def found(rows: list[tuple[object, ...]]) -> list[object]:
        values = [value for at, row in enumerate(rows) for value in (at, *row)]
        try:
            filled = query.format(", ".join([f"(?, {one})"] * len(rows)))
            return [value for (value,) in connection.execute(filled, values).fetchall()]
        except THEIR_ERRORS:
            half = len(rows) // 2
            return [*found(rows[:half]), *found(rows[half:])] if half else [REJECTED]

    return found(given_rows(shared))


@pytest.mark.parametrize("shared", [each for each in CALLS if each.duckdb is not None], ids=str)
def test_duckdb_returns_the_same(shared: Shared, connection: duckdb.DuckDBPyConnection) -> None:
    kind, _ = answers(shared.ours, shared)
    assert differences("duckdb", shared, computed(connection, shared, kind)) == []
