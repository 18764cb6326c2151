from __future__ import annotations

from decimal import Decimal

import pytest

from rowtide.codec.written.times import ScenarioDay, format_timestamp, parse_duration
from rowtide.codec.written.values import cell_text, text_of, value_of
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
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

DAY = ScenarioDay(86_400_000)
REAL = Type(Kind.REAL)
VARBINARY = Type(Kind.VARBINARY)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", INTEGER, 7),
        ("-9223372036854775808", BIGINT, -(2**63)),
        ("2.0", INTEGER, 2),
        ("0.1", decimal(4, 2), Decimal("0.10")),
        (
            "12345678901234567890123456789012345678",
            decimal(38),
            Decimal("12345678901234567890123456789012345678"),
        ),
        ("1e-9", DOUBLE, 1e-9),
        (".inf", DOUBLE, float("inf")),
        ("0.1", REAL, 0.10000000149011612),
        ("TRUE", BOOLEAN, True),
        ("007", VARCHAR, "007"),
        ("", VARCHAR, ""),
        ("x'00ff'", VARBINARY, b"\x00\xff"),
        ("plain", VARBINARY, b"plain"),
        ("1970-01-03", DATE, 2),
        ("01:00:00.250", TIME, 3_600_250),
        ("01:00:00", TIMESTAMP, 90_000_000),
        ("1970-01-01 00:00:01", TIMESTAMP, 1000),
        ("1970-01-01 00:00:01-00:01", INSTANT, 61_000),
        ("1970-01-01T02:00:01.5+02:00", INSTANT, 1500),
        ("-5", TIMESTAMP, -5),
        ("10 minutes", INTERVAL_DAY, 600_000),
        ("INTERVAL '1.5' SECOND", INTERVAL_DAY, 1500),
        ("2 YEAR", INTERVAL_MONTH, 24),
    ],
)
def test_text_is_converted_by_the_columns_type(text: str, kind: Type, value: object) -> None:
    found = value_of(text, kind, DAY)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2147483648", INTEGER),
        ("1.5", INTEGER),
        ("x", INTEGER),
        ("nan", INTEGER),
        ("0.123", decimal(4, 2)),
        ("123", decimal(4, 2)),
        ("yes", BOOLEAN),
        ("toolong", Type(Kind.VARCHAR, 3)),
        ("1970-13-01", DATE),
        ("1:2:3", TIME),
        ("1970-01-01 25:00:00", TIMESTAMP),
        ("1970-01-01 00:00:00+24:00", INSTANT),
        ("10 furlongs", INTERVAL_DAY),
        ("10 minutes", INTERVAL_MONTH),
        ("0.0001 second", INTERVAL_DAY),
    ],
)
def test_text_that_is_no_value_of_the_type_is_refused(text: str, kind: Type) -> None:
    with pytest.raises(ValueError, match=r'"'):
        value_of(text, kind, DAY)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, INTEGER, "null"),
        ("null", VARCHAR, '"null"'),
        ('a "b" ü', VARCHAR, '"a \\"b\\" ü"'),
        (Decimal("1E+3"), decimal(8, 0), "1000"),
        (0.10000000149011612, REAL, "0.1"),
        (b"\xff", VARBINARY, "\"x'ff'\""),
        (86_400_000, TIMESTAMP, '"00:00:00"'),
        (0, TIMESTAMP, '"1970-01-01 00:00:00"'),
        (True, BOOLEAN, "true"),
        (2, DATE, '"1970-01-03"'),
    ],
)
def test_a_value_is_written_so_that_it_can_be_read_again(value: object, kind: Type, text: str) -> None:
    assert cell_text(value, kind, DAY) == text
    if value is not None:
        assert value_of(text_of(value, kind, DAY), kind, DAY) == value


def test_a_time_that_no_calendar_has_is_written_as_its_number() -> None:
    assert format_timestamp(-(2**63)) == str(-(2**63))


@pytest.mark.parametrize(
    ("text", "millis"), [("5s", 5000), ("250ms", 250), ("1h 2m 3s", 3_723_000), ("1d", 86_400_000)]
)
def test_lengths_of_time_have_units(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


@pytest.mark.parametrize("text", ["", "5", "s", "5s x", "-5s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
