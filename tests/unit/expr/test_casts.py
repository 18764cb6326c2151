"""CAST, as docs/sql/semantics.md#numbers defines it."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from rowtide.errors import Reason
from rowtide.expr.functions import TypeMismatch, cast_allowed, resolve
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
    Kind,
    Type,
    decimal,
)
from unit.expr.expressions import cast, cast_rejection, days, ms

REAL, TINYINT = Type(Kind.REAL), Type(Kind.TINYINT)
BYTES = Type(Kind.VARBINARY)
D = Decimal


def varchar(length: int) -> Type:
    return Type(Kind.VARCHAR, length)


@pytest.mark.parametrize(
    ("value", "target", "result"),
    [
        (D("2.5"), INTEGER, 3),
        (D("-2.5"), INTEGER, -3),
        (D("2.49"), INTEGER, 2),
        (D("1.005"), decimal(5, 2), D("1.01")),
        (D("-1.005"), decimal(5, 2), D("-1.01")),
        (2.5, INTEGER, 3),
        (-3.5, BIGINT, -4),
        (0.49999999999999994, INTEGER, 0),
        (0.285, decimal(4, 2), D("0.29")),
        (0.125, decimal(4, 2), D("0.13")),
        (1.115, decimal(4, 2), D("1.12")),
        (8.345, decimal(4, 2), D("8.35")),
        (7, decimal(4, 2), D("7.00")),
        ((2**53 + 1, BIGINT), DOUBLE, 2.0**53),
        (D("0.1"), DOUBLE, 0.1),
        (0.1, REAL, 0.10000000149011612),
        (D("99999999999999999999999999999999999999"), DOUBLE, 1e38),
        (9.3e18, decimal(38), D(9300000000000000000)),
        (-1e37, decimal(38), D(-(10**37))),
        (9.2e18, decimal(19), D(9200000000000000000)),
        (True, INTEGER, 1),
        (-5, BOOLEAN, True),
    ],
)
def test_fewer_digits_round_half_away_from_zero(value: object, target: Type, result: object) -> None:
    given = cast(value, target)
    assert given == result
    assert str(given) == str(result)


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (128, TINYINT),
        (D("127.5"), TINYINT),
        (D("99.995"), decimal(4, 2)),
        (100, decimal(4, 2)),
        (2.0**63, BIGINT),
        (math.nan, INTEGER),
        (math.inf, decimal(38)),
        (1e300, REAL),
        ("128", TINYINT),
        ("1e400", DOUBLE),
        ("1e99999999999999999999", decimal(10)),
        ("9" * 5_000, BIGINT),
    ],
)
def test_what_is_out_of_range_is_an_overflow(value: object, target: Type) -> None:
    reason, message = cast_rejection(value, target)
    assert reason is Reason.OVERFLOW
    assert message.endswith(f"is out of range for {target}")


def test_a_shorter_string_is_rejected_unless_only_blanks_are_cut() -> None:
    assert cast("abc  ", varchar(3)) == "abc"
    assert cast("abc", varchar(3)) == "abc"
    assert cast_rejection("abcd", varchar(3)) == (Reason.CAST, '"abcd" is longer than VARCHAR(3)')
    assert cast_rejection("ab c", varchar(3))[0] is Reason.CAST
    assert cast("é  ", varchar(1)) == "é"
    assert cast_rejection(1234, varchar(3))[0] is Reason.CAST
    assert cast("ab", Type(Kind.CHAR, 4)) == "ab"
    assert cast((b"ab\0", BYTES), Type(Kind.VARBINARY, 2)) == b"ab"
    assert cast_rejection((b"abc", BYTES), Type(Kind.VARBINARY, 2))[0] is Reason.CAST


TEXTS = [
    (12, "12"),
    (D("-1.50"), "-1.50"),
    ((D("0E-10"), decimal(12, 10)), "0.0000000000"),
    (1.5, "1.5"),
    (1e20, "1e+20"),
    ((0.1, REAL), "0.1"),
    (True, "TRUE"),
    ((days("2024-02-29"), DATE), "2024-02-29"),
    ((-719162, DATE), "0001-01-01"),
    ((45_296_789, TIME), "12:34:56.789"),
    ((45_296_000, TIME), "12:34:56"),
    ((ms("1969-12-31T23:59:59.999"), TIMESTAMP), "1969-12-31 23:59:59.999"),
    ((90_061_001, INTERVAL_DAY), "1 01:01:01.001"),
    ((-1, INTERVAL_DAY), "-0 00:00:00.001"),
    ((-14, INTERVAL_MONTH), "-1-2"),
    (("é".encode(), BYTES), "é"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_text_reads_back_as_the_value_it_came_from(value: object, text: str) -> None:
    assert cast(value, VARCHAR) == text
    given, kind = value if isinstance(value, tuple) else (value, None)
    if kind is None:
        kind = {bool: BOOLEAN, int: INTEGER, float: DOUBLE, Decimal: decimal(3, 2)}[type(given)]
    back = cast(f" {text} ", kind) if kind != BYTES else cast(text, kind)
    assert back == pytest.approx(given)
    assert type(back) is type(given)


@pytest.mark.parametrize(
    ("text", "target", "result"),
    [
        ("+5", INTEGER, 5),
        ("1.5", INTEGER, 2),
        ("-1.5e0", INTEGER, -2),
        ("1e-99999999999999999999", INTEGER, 0),
        ("0e99999999999999999999", INTEGER, 0),
        (".5", DOUBLE, 0.5),
        ("007", BIGINT, 7),
        ("1.005", decimal(4, 2), D("1.01")),
        ("true", BOOLEAN, True),
        ("2024-2-9", DATE, days("2024-02-09")),
        ("2024-02-29T12:00:00Z", TIMESTAMP, ms("2024-02-29T12:00:00")),
        ("2024-02-29 12:00:00.1239", TIMESTAMP, ms("2024-02-29T12:00:00.123")),
        ("2024-02-29 12:00:00+02:00", TIMESTAMP, ms("2024-02-29T10:00:00")),
        ("2024-02-29", TIMESTAMP, ms("2024-02-29T00:00:00")),
        ("12:34", TIME, 45_240_000),
    ],
)
def test_text_is_read(text: str, target: Type, result: object) -> None:
    assert cast(text, target) == result


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("", INTEGER),
        ("x12", INTEGER),
        ("1 2", INTEGER),
        ("0x1F", INTEGER),
        ("1_000", INTEGER),
        ("٣", INTEGER),
        ("nan", DOUBLE),
        ("inf", DOUBLE),
        ("1e", DOUBLE),
        ("1,5", decimal(4, 2)),
        ("o", BOOLEAN),
        ("2023-02-29", DATE),
        ("2024-13-01", DATE),
        ("0000-01-01", DATE),
        ("24:00:00", TIME),
        ("2024-02-29 25:00:00", TIMESTAMP),
        ("2024-02-29Z", TIMESTAMP),
        ("1", INTERVAL_DAY),
        ("1-12", INTERVAL_MONTH),
    ],
)
def test_text_that_is_no_value_is_rejected(text: str, target: Type) -> None:
    assert cast_rejection(text, target) == (Reason.CAST, f'"{text}" is not a valid {target}')


def test_long_text_is_cut_in_the_message() -> None:
    reason, message = cast_rejection("x" * 1000, INTEGER)
    assert reason is Reason.CAST
    assert len(message) < 100


def test_binary_that_is_no_text_is_rejected() -> None:
    assert cast_rejection((b"\xff", BYTES), VARCHAR) == (Reason.CAST, "X'ff' is not UTF-8 text")


def test_times_become_one_another() -> None:
    moment = (ms("1969-12-31T23:00:00"), TIMESTAMP)
    assert cast(moment, DATE) == -1
    assert cast(moment, TIME) == 82_800_000
    assert cast((-1, DATE), TIMESTAMP) == -86_400_000
    assert cast(moment, BIGINT) == -3_600_000
    assert cast((-3_600_000, BIGINT), TIMESTAMP) == -3_600_000
    assert cast((5, INTERVAL_DAY), BIGINT) == 5
    assert cast_rejection((2**62, BIGINT), TIMESTAMP)[0] is Reason.OVERFLOW
    assert cast_rejection(moment, TINYINT)[0] is Reason.OVERFLOW


@pytest.mark.parametrize(
    ("source", "target"),
    [(BOOLEAN, DOUBLE), (DATE, INTEGER), (TIME, TIMESTAMP), (INTERVAL_DAY, INTERVAL_MONTH), (BYTES, INTEGER)],
)
def test_there_is_no_such_cast(source: Type, target: Type) -> None:
    assert not cast_allowed(source, target)
    with pytest.raises(TypeMismatch, match=f"{source} cannot be cast to {target}"):
        resolve("CAST", [source, target])


def test_null_stays_null() -> None:
    assert cast((None, VARCHAR), INTEGER) is None


@pytest.mark.parametrize("exponent", range(-7, 20))
def test_doubles_of_every_size_are_written_alike_by_column_and_by_row(exponent: int) -> None:
    for digits in (1.0, -2.5, 9.87654321):
        value = digits * 10.0**exponent
        assert cast(value, VARCHAR) == repr(value)
