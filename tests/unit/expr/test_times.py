"""Parts of times, periods of them, and numbers that are rounded."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rowtide.errors import Reason
from rowtide.rows.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)
from unit.expr.expressions import days, ms, rejection, type_of, value_of

D = Decimal
MINUTE_MS = 60_000
MOMENT = (ms("2024-02-29T12:34:56.789"), TIMESTAMP)
BEFORE_EPOCH = (ms("1969-12-28T23:59:59.001"), TIMESTAMP)


@pytest.mark.parametrize(
    ("unit", "part", "before"),
    [
        ("YEAR", 2024, 1969),
        ("QUARTER", 1, 4),
        ("MONTH", 2, 12),
        ("WEEK", 9, 52),
        ("DAY", 29, 28),
        ("DOW", 5, 1),
        ("DOY", 60, 362),
        ("HOUR", 12, 23),
        ("MINUTE", 34, 59),
        ("SECOND", 56, 59),
        ("MILLISECOND", 789, 1),
        ("EPOCH", 1_709_210_096, -259_201),
    ],
)
def test_extract(unit: str, part: int, before: int) -> None:
    assert value_of("EXTRACT", unit, MOMENT) == part
    assert value_of("EXTRACT", unit, BEFORE_EPOCH) == before
    assert type_of("EXTRACT", unit, MOMENT) == BIGINT


@pytest.mark.parametrize(
    ("day", "week"), [("2021-01-03", 53), ("2021-01-04", 1), ("2018-12-31", 1), ("2024-12-29", 52)]
)
def test_weeks_begin_on_monday_and_belong_to_the_year_of_their_thursday(day: str, week: int) -> None:
    assert value_of("EXTRACT", "WEEK", (days(day), DATE)) == week


def test_parts_of_intervals_have_their_sign() -> None:
    interval = (-(2 * 86_400_000 + 3_600_000 + 1_500), INTERVAL_DAY)
    assert [value_of("EXTRACT", unit, interval) for unit in ("DAY", "HOUR", "SECOND")] == [-2, -1, -1]
    longest = (-(2**63), INTERVAL_DAY)
    assert value_of("EXTRACT", "DAY", longest) == -(2**63 // 86_400_000)
    months = (-14, INTERVAL_MONTH)
    assert [value_of("EXTRACT", unit, months) for unit in ("YEAR", "MONTH")] == [-1, -2]
    assert rejection("EXTRACT", "HOUR", months)[0] is Reason.FUNCTION
    assert rejection("EXTRACT", "YEAR", (0, TIME))[0] is Reason.FUNCTION


@pytest.mark.parametrize(
    ("unit", "floor", "ceil"),
    [
        ("SECOND", "2024-02-29T12:34:56", "2024-02-29T12:34:57"),
        ("HOUR", "2024-02-29T12:00:00", "2024-02-29T13:00:00"),
        ("WEEK", "2024-02-26T00:00:00", "2024-03-04T00:00:00"),
        ("MONTH", "2024-02-01T00:00:00", "2024-03-01T00:00:00"),
        ("YEAR", "2024-01-01T00:00:00", "2025-01-01T00:00:00"),
    ],
)
def test_floor_and_ceil_go_to_the_edges_of_the_calendar(unit: str, floor: str, ceil: str) -> None:
    assert value_of("FLOOR_TO", MOMENT, unit) == ms(floor)
    assert value_of("CEIL_TO", MOMENT, unit) == ms(ceil)
    assert value_of("CEIL_TO", (ms(floor), TIMESTAMP), unit) == ms(floor)


def test_floor_of_a_date_is_a_date() -> None:
    assert value_of("FLOOR_TO", (days("2024-02-29"), DATE), "MONTH") == days("2024-02-01")
    assert value_of("CEIL_TO", (days("2024-02-29"), DATE), "YEAR") == days("2025-01-01")
    assert rejection("CEIL_TO", (days("9999-12-31"), DATE), "YEAR")[0] is Reason.OVERFLOW
    assert rejection("FLOOR_TO", (0, DATE), "CENTURY")[0] is Reason.FUNCTION


def test_steps_are_aligned_to_the_epoch_plus_the_offset() -> None:
    step = (5 * MINUTE_MS, INTERVAL_DAY)
    assert value_of("STEP", (7 * MINUTE_MS, TIMESTAMP), step) == 5 * MINUTE_MS
    assert value_of("STEP", (-1, TIMESTAMP), step) == -5 * MINUTE_MS
    assert value_of("STEP", (7 * MINUTE_MS, TIMESTAMP), step, (MINUTE_MS, INTERVAL_DAY)) == 6 * MINUTE_MS
    assert rejection("STEP", (0, TIMESTAMP), (0, INTERVAL_DAY))[0] is Reason.FUNCTION


def test_tsdiff_counts_from_the_first_to_the_second() -> None:
    assert value_of("TSDIFF", (1_000, TIMESTAMP), (4_500, TIMESTAMP)) == 3_500
    assert value_of("TSDIFF", (1, DATE), (0, TIMESTAMP)) == -86_400_000


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("FLOOR", [D("-1.5")], D("-2")),
        ("CEIL", [D("-1.5")], D("-1")),
        ("FLOOR", [-1.5], -2.0),
        ("CEIL", [7], 7),
        ("ROUND", [D("2.5")], D("3.0")),
        ("ROUND", [D("-2.45"), 1], D("-2.50")),
        ("ROUND", [D("9.95"), 1], D("10.00")),
        ("ROUND", [D("1.25"), 9], D("1.25")),
        ("ROUND", [15, -1], 20),
        ("ROUND", [15, -2], 0),
        ("ROUND", [15, -100], 0),
        ("ROUND", [2.5], 3.0),
        ("ROUND", [-0.5], -1.0),
        ("ROUND", [0.49999999999999994], 0.0),
        ("ROUND", [1234.5678, 2], 1234.57),
        ("ROUND", [1234.5678, -2], 1200.0),
        ("ROUND", [1e300, 20], 1e300),
        ("TRUNCATE", [D("-2.99"), 1], D("-2.90")),
        ("TRUNCATE", [-2.99], -2.0),
        ("TRUNCATE", [-199, -2], -100),
        ("SIGN", [D("-0.01")], -1),
        ("SIGN", [0.0], 0),
        ("ABS", [D("-0.01")], D("0.01")),
        ("SQRT", [4], 2.0),
        ("POWER", [2, 10], 1024.0),
        ("POWER", [-2, 3], -8.0),
        ("EXP", [0], 1.0),
        ("LN", [1], 0.0),
        ("LOG10", [1000], 3.0),
    ],
)
def test_functions_of_numbers(name: str, args: list[object], result: object) -> None:
    value = value_of(name, *args)
    assert value == result
    assert type(value) is type(result)


def test_rounding_may_need_one_more_digit() -> None:
    assert type_of("ROUND", D("9.95"), 1) == decimal(4, 2)
    assert type_of("FLOOR", D("9.95")) == decimal(2)
    assert type_of("TRUNCATE", D("9.95"), 1) == decimal(3, 2)
    assert type_of("ROUND", 1, 1) == INTEGER
    assert type_of("SQRT", (1.0, Type(Kind.REAL))) == DOUBLE
    assert rejection("ROUND", (127, Type(Kind.TINYINT)), -1)[0] is Reason.OVERFLOW


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("SQRT", [-1], Reason.FUNCTION),
        ("LN", [0], Reason.FUNCTION),
        ("LOG10", [-1.0], Reason.FUNCTION),
        ("POWER", [0, -1], Reason.FUNCTION),
        ("POWER", [-8, 0.5], Reason.FUNCTION),
        ("POWER", [10, 400], Reason.OVERFLOW),
        ("EXP", [1000], Reason.OVERFLOW),
    ],
)
def test_where_a_function_has_no_value_the_row_is_rejected(
    name: str, args: list[object], reason: Reason
) -> None:
    assert rejection(name, *args)[0] is reason
