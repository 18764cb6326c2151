"""STRFTIME writes what ``strftime`` of Python writes, and STRPTIME reads what ``strptime`` reads."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.functions.times import civil
from rowtide.expr.functions.times.time_formats import C_YEARS, DayTime, FormatError, c_format, read, written

EPOCH = datetime(1970, 1, 1)
# C does not write zeros before a year below 1000.
MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_000)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
)
WRITTEN = (*"YymdjBbhAauwGVHIpMSfFTR%", "-y", "-m", "-d", "-j", "-H", "-I", "-M", "-S")
DAYS = (
    *("%Y-%m-%d", "%y %B %d", "%b %-d %Y", "%Y %j", "%m %d", "%d", "%B %Y", "%Y"),
    *("%G %V %u", "%G-W%V-%w", "%a %w %Y %m %d", ""),
)
TIMES = ("%H", "%H:%M:%S", "%I %p", "%I:%M %p", "%-H.%-M.%-S.%f", "%M", "%S %f", "")


def taken_apart(at: datetime) -> DayTime:
    return DayTime(*divmod((at - EPOCH) // timedelta(milliseconds=1), civil.DAY_MS))


@given(st.lists(st.sampled_from(WRITTEN), min_size=1), st.text("ab :/'", max_size=2), MOMENTS)
def test_a_time_is_written_as_in_python(fields: list[str], between: str, at: datetime) -> None:
    form = between.join(f"%{each}" for each in fields)
    assert written(c_format(form), taken_apart(at)) == at.strftime(form)


BLANKS = st.text(" \t\n\r\f\v", min_size=1, max_size=3)


@given(st.sampled_from(DAYS), st.sampled_from(TIMES), MOMENTS, BLANKS, BLANKS)
def test_a_time_is_read_as_in_python(days: str, times: str, at: datetime, blanks: str, others: str) -> None:
    form = f"{days} {times}".strip()
    text = at.strftime(form).replace(" ", others)
    form = form.replace(" ", blanks)
    ours: DayTime | None
    try:
        ours = read(c_format(form), text, C_YEARS)
    except FormatError:
        ours = None
    theirs: DayTime | None
    try:
        # Python reads numbers without zeros by the plain fields.
        theirs = taken_apart(datetime.strptime(text, form.replace("%-", "%")))
    except ValueError:
        theirs = None
    assert ours == theirs
