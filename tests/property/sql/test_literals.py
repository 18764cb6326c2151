"""Constants of the text against the standard library's own reading of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.sql.grammar import literals

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
lengths = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=99_999)).map(
    lambda length: timedelta(milliseconds=length // timedelta(milliseconds=1))
)


@given(lengths, st.sampled_from(["", "-", "+"]))
def test_an_interval_of_day_to_second_is_what_timedelta_says(length: timedelta, sign: str) -> None:
    seconds, millis = divmod(length // timedelta(milliseconds=1), 1_000)
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    expected = length // timedelta(milliseconds=1) * (-1 if sign == "-" else 1)
    text = f"{sign}{days} {hours}:{minutes:02}:{seconds % 60:02}.{millis:03}"
    assert literals.interval(text, "DAY", "SECOND") == expected
    assert literals.interval(f"{sign}{seconds}.{millis:03}", "SECOND") == expected
    shorter = f"{sign}{seconds // 60}:{seconds % 60:02}.{millis:03}"
    assert literals.interval(shorter, "MINUTE", "SECOND") == expected


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_a_timestamp_is_what_datetime_says(moment: datetime) -> None:
    at = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000, tzinfo=UTC)
    text = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03}".rjust(23, "0")
    assert literals.timestamp_ms(text) == (at - EPOCH) // timedelta(milliseconds=1)
    assert literals.date_days(text[:10]) == (at.date() - EPOCH.date()).days


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (literals.date_days, "2023-02-29"),
        (literals.date_days, "23-02-01"),
        (literals.time_ms, "24:00:00"),
        (literals.time_ms, "10:00"),
        (literals.time_ms, "10:00:00.0001"),
        (literals.timestamp_ms, "2023-02-01"),
        (literals.timestamp_ms, "2023-02-01T10:00:00"),
        (literals.interval_text_ms, "1 MONTH"),
        (literals.interval_text_ms, "0 SECOND"),
        (literals.interval_text_ms, "DAY"),
        (lambda text: literals.interval(text, "HOUR", "MINUTE"), "1:60"),
        (lambda text: literals.interval(text, "MINUTE", "HOUR"), "1:10"),
        (lambda text: literals.interval(text, "SECOND"), "1.0005"),
        (lambda text: literals.interval(text, "DAY"), "1 2"),
        (lambda text: literals.interval(text, "DAY"), "9" * 30),
    ],
)
def test_what_is_no_constant_is_refused(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=r"is not|finer|invalid|too long|above zero"):
        read(text)


def test_options_spell_lengths_as_count_and_unit() -> None:
    assert literals.interval_text_ms("1 DAY") == 86_400_000
    assert literals.interval_text_ms("30 seconds") == 30_000


def test_years_and_months_are_months() -> None:
    assert literals.interval("1-6", "YEAR", "MONTH") == 18
    assert literals.interval("-2", "YEAR") == -24
