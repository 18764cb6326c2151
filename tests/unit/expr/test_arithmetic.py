"""Arithmetic, as docs/sql/semantics.md#numbers defines it."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from rowtide.errors import Reason
from rowtide.expr.functions import TypeMismatch, resolve
from rowtide.rows.types import (
    BIGINT,
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
from unit.expr.expressions import days, rejection, type_of, value_of

REAL, TINYINT, SMALLINT = Type(Kind.REAL), Type(Kind.TINYINT), Type(Kind.SMALLINT)
DAY_MS = 86_400_000
D = Decimal


def test_division_of_integers_goes_towards_zero() -> None:
    assert [value_of("/", a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]
    assert type_of("/", 7, 2) == INTEGER


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    assert [value_of("%", a, b) for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3))] == [1, -1, 1, -1]
    assert value_of("%", D("-7.5"), D("2.00")) == D("-1.50")
    assert value_of("%", -7.5, 2.0) == -1.5


@pytest.mark.parametrize("kind", [TINYINT, SMALLINT, INTEGER, BIGINT])
def test_arithmetic_does_not_widen_and_overflow_rejects_the_row(kind: Type) -> None:
    greatest = 2 ** (8 * kind.dtype.itemsize - 1) - 1
    assert type_of("+", (1, kind), (1, kind)) == kind
    assert value_of("+", (greatest - 1, kind), (1, kind)) == greatest
    assert rejection("+", (greatest, kind), (1, kind)) == (
        Reason.OVERFLOW,
        f"{greatest} + 1 is out of range for {kind}",
    )
    assert rejection("-", (-greatest - 1, kind), (1, kind))[0] is Reason.OVERFLOW
    assert rejection("*", (greatest, kind), (2, kind))[0] is Reason.OVERFLOW
    assert rejection("/", (-greatest - 1, kind), (-1, kind))[0] is Reason.OVERFLOW
    assert value_of("%", (-greatest - 1, kind), (-1, kind)) == 0
    assert rejection("NEGATE", (-greatest - 1, kind))[0] is Reason.OVERFLOW
    assert rejection("ABS", (-greatest - 1, kind))[0] is Reason.OVERFLOW


def test_products_are_told_apart_at_the_edge_of_bigint() -> None:
    fits, overflows = (3_037_000_499, BIGINT), (3_037_000_500, BIGINT)
    assert value_of("*", fits, fits) == 3_037_000_499**2
    assert rejection("*", overflows, overflows)[0] is Reason.OVERFLOW
    assert value_of("*", (-(2**62), BIGINT), (2, BIGINT)) == -(2**63)


def test_mixed_sizes_of_integers_take_the_larger() -> None:
    assert resolve("*", [TINYINT, SMALLINT]) == SMALLINT
    assert resolve("+", [BIGINT, INTEGER]) == BIGINT


def test_anything_with_a_float_is_double_except_real_with_real() -> None:
    assert resolve("+", [REAL, REAL]) == REAL
    assert resolve("+", [REAL, INTEGER]) == DOUBLE
    assert resolve("*", [decimal(4, 2), DOUBLE]) == DOUBLE
    assert resolve("-", [REAL, DOUBLE]) == DOUBLE


@pytest.mark.parametrize(
    ("operator", "first", "second", "result"),
    [
        ("+", decimal(10, 2), decimal(8, 3), decimal(12, 3)),
        ("-", decimal(10, 2), INTEGER, decimal(13, 2)),
        ("*", decimal(10, 2), decimal(8, 3), decimal(18, 5)),
        ("/", decimal(10, 2), decimal(8, 3), decimal(22, 11)),
        ("/", decimal(4, 1), decimal(2, 0), decimal(9, 6)),
        ("%", decimal(10, 2), decimal(8, 3), decimal(8, 3)),
        ("+", decimal(38, 10), decimal(38, 2), decimal(38, 10)),
        ("*", decimal(38, 10), decimal(38, 2), decimal(38, 12)),
        ("/", decimal(38, 10), decimal(38, 2), decimal(38, 8)),
        ("/", decimal(38, 0), decimal(38, 30), decimal(38, 6)),
    ],
)
def test_decimals_have_the_types_of_the_table(operator: str, first: Type, second: Type, result: Type) -> None:
    assert resolve(operator, [first, second]) == result


def test_a_product_with_more_than_38_digits_behind_the_point_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="does not take") as caught:
        resolve("*", [decimal(38, 20), decimal(38, 20)])
    assert caught.value.hint is not None
    assert "40 digits after the decimal point" in caught.value.hint


def test_sums_and_products_of_decimals_are_exact() -> None:
    assert value_of("+", D("0.10"), D("0.2")) == D("0.30")
    assert value_of("*", D("99.99"), D("99.99")) == D("9998.0001")
    assert value_of("*", (2**62, BIGINT), D("0.908")) == 2**62 * D("0.908")


def test_quotients_of_decimals_are_rounded_half_away_from_zero() -> None:
    assert value_of("/", D("2.0"), D("3.0")) == D("0.666667")
    assert value_of("/", D("-1"), D("8000000")) == D("-0.00000013")
    assert str(value_of("/", D("1.0"), D("4"))) == "0.250000"


def test_a_decimal_that_needs_more_than_38_digits_rejects_the_row() -> None:
    nines = (D(10**38 - 1), decimal(38))
    assert rejection("+", nines, (D(1), decimal(38)))[0] is Reason.OVERFLOW
    assert rejection("*", nines, nines)[0] is Reason.OVERFLOW
    assert value_of("-", nines, nines) == 0


@pytest.mark.parametrize("operator", ["/", "%"])
@pytest.mark.parametrize("one", [1, D("1.0"), 1.0, (1.0, REAL), (1, BIGINT)])
def test_by_zero_is_a_rejected_row_and_null_by_zero_is_null(operator: str, one: object) -> None:
    value, kind = one if isinstance(one, tuple) else (one, None)
    assert type(value) in (int, float, Decimal)
    zero = value - value
    nought = zero if kind is None else (zero, kind)
    assert rejection(operator, one, nought)[0] is Reason.DIVISION_BY_ZERO
    null = (None, INTEGER if kind is None else kind)
    assert value_of(operator, null, nought) is None
    assert value_of(operator, one, null) is None


def test_a_rejected_row_says_what_was_computed() -> None:
    assert rejection("/", D("1.50"), 0) == (Reason.DIVISION_BY_ZERO, "division by zero in 1.50 / 0")


def test_a_float_never_becomes_infinite_but_may_stay_so() -> None:
    assert rejection("*", 1e308, 10.0)[0] is Reason.OVERFLOW
    assert rejection("+", (3e38, REAL), (3e38, REAL))[0] is Reason.OVERFLOW
    assert value_of("+", math.inf, 1.0) == math.inf
    assert rejection("/", math.inf, 0.0)[0] is Reason.DIVISION_BY_ZERO


def test_real_arithmetic_is_of_single_precision() -> None:
    third = value_of("/", (1.0, REAL), (3.0, REAL))
    assert third == 0.3333333432674408


def test_intervals_move_points_in_time() -> None:
    assert value_of("+", (1_000, TIMESTAMP), (500, INTERVAL_DAY)) == 1_500
    assert value_of("+", (500, INTERVAL_DAY), (1_000, TIMESTAMP)) == 1_500
    assert value_of("-", (10, DATE), (2 * DAY_MS, INTERVAL_DAY)) == 8
    assert value_of("-", (10, DATE), (1, INTERVAL_DAY)) == 9
    assert value_of("+", (DAY_MS - 1, TIME), (2, INTERVAL_DAY)) == 1
    assert value_of("-", (2, TIMESTAMP), (5, TIMESTAMP)) == -3
    assert type_of("-", (2, DATE), (5, TIMESTAMP)) == INTERVAL_DAY
    assert value_of("-", (2, DATE), (1, DATE)) == DAY_MS


@pytest.mark.parametrize(
    ("day", "months", "result"), [("2024-01-31", 1, "2024-02-29"), ("2023-12-31", -10, "2023-02-28")]
)
def test_a_month_too_short_takes_its_last_day(day: str, months: int, result: str) -> None:
    given = value_of("+", (days(day), DATE), (months, INTERVAL_MONTH))
    assert given == days(result)
    moment = value_of("+", (days(day) * DAY_MS + 7, TIMESTAMP), (months, INTERVAL_MONTH))
    assert moment == days(result) * DAY_MS + 7


def test_time_does_not_leave_the_years_1_to_9999() -> None:
    last = (days("9999-12-31"), DATE)
    assert rejection("+", last, (DAY_MS, INTERVAL_DAY))[0] is Reason.OVERFLOW
    assert rejection("+", last, (1, INTERVAL_MONTH))[0] is Reason.OVERFLOW
    assert rejection("-", (0, TIMESTAMP), (2**40, INTERVAL_MONTH))[0] is Reason.OVERFLOW


def test_intervals_are_multiplied_and_divided_half_away_from_zero() -> None:
    assert value_of("*", (3, INTERVAL_DAY), 2) == 6
    assert value_of("*", D("0.5"), (3, INTERVAL_DAY)) == 2
    assert value_of("/", (-3, INTERVAL_DAY), 2) == -2
    assert value_of("*", (3, INTERVAL_MONTH), 1.5) == 5
    assert rejection("/", (3, INTERVAL_DAY), 0)[0] is Reason.DIVISION_BY_ZERO
    assert rejection("*", (2**62, INTERVAL_DAY), 2)[0] is Reason.OVERFLOW
    assert value_of("NEGATE", (3, INTERVAL_DAY)) == -3


@pytest.mark.parametrize(
    ("operator", "types"),
    [
        ("+", [VARCHAR, INTEGER]),
        ("+", [TIMESTAMP, TIMESTAMP]),
        ("+", [TIME, INTERVAL_MONTH]),
        ("+", [INTERVAL_DAY, INTERVAL_MONTH]),
        ("%", [INTERVAL_DAY, INTEGER]),
        ("-", [INTERVAL_DAY, TIMESTAMP]),
        ("NEGATE", [VARCHAR]),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_types(operator: str, types: list[Type]) -> None:
    with pytest.raises(TypeMismatch, match=str(types[0])):
        resolve(operator, types)
