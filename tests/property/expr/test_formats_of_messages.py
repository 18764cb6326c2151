"""Time formats that come with a row: they are read in a time that is linear in format and text.

Trying the matches of one field after those of another would take longer than the test may for what is drawn here.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.functions.times.time_formats import MOST_CHARACTERS, c_format, java_pattern, template
from rowtide.expr.functions.times.times_as_text import FORMATS
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import TIMESTAMP, VARCHAR, Field, RowType

ROW = RowType((Field("A", VARCHAR), Field("B", VARCHAR)))
READING = ("STRPTIME", "TO_TIMESTAMP", "TO_DATE", "CHAR_TO_TIMESTAMP", "CHAR_TO_DATE", "CHAR_TO_TIME")
FIELDS: dict[object, tuple[str, ...]] = {
    c_format: ("%A", "%b", "%p", "%-d", "%d", "%f", "%Y", "%z", "%j", "1", "0", " "),
    template: ("DAY", "MON", "AM", "FMDD", "DD", "US", "YYYY", "OF", "DDD", '"1"', '"0"', " "),
    java_pattern: ("EEEE", "MMM", "a", "d", "dd", "SSS", "yyyy", "Z", "D", "'1'", "'0'", " "),
}
TEXTS = ("A", "Monday", "May", "PM", "1", "12", "000001", "2026", "+00123456", "+0000", "Z", " ")


def answer(name: str, form: str, text: str) -> object:
    """Return the result, or why there is none; see that row and columns agree."""
    kinds = (VARCHAR, VARCHAR)
    call = Call(name, (FieldRef(0, VARCHAR), FieldRef(1, VARCHAR)), resolve(name, kinds))
    row = (form, text) if FORMATS[name][0] == 0 else (text, form)
    part = compile_columns(call)(Tray.from_rows(ROW, [TimedRow(0, 0, 0, Opcode.INSERT, row)]))
    try:
        value = compile_row(call)(row, 0)
    except RejectedRowError as error:
        assert part.errors is not None
        assert [each.message for each in part.errors] == [error.message]
        return error.message
    assert part.column.to_list() == [value]
    return value


@pytest.mark.timeout(100)
@pytest.mark.parametrize("name", READING)
@given(data=st.data())
def test_repeated_fields_end_at_once(name: str, data: st.DataObject) -> None:
    fields = st.lists(st.sampled_from(FIELDS[FORMATS[name][1]]), min_size=1, max_size=3).map("".join)
    texts = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3).map("".join)
    form = data.draw(fields) * data.draw(st.integers(1, 40))
    text = data.draw(texts) * data.draw(st.integers(1, 80))
    answer(name, form, text + data.draw(st.sampled_from(("", "!"))))


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("name", "form", "text"),
    [
        ("STRPTIME", "%A" * 20, "A" * 60 + "1"),
        *(("STRPTIME", "%d1" * 30, "1" * count + "!") for count in (60, 75, 90)),
        ("STRPTIME", "%z%f" * 40, "+00123456" * 40 + "!"),
        *((name, "DAY" * 20, "A" * 60 + "1") for name in ("TO_TIMESTAMP", "TO_DATE")),
        *(("TO_TIMESTAMP", 'DD"1"' * 30, "1" * count + "!") for count in (60, 75, 90)),
        ("TO_TIMESTAMP", "OFUS" * 40, "+00123456" * 40 + "!"),
        *(
            (name, "EEEEMMMM" * 10, "A" * 60 + "1")
            for name in ("CHAR_TO_TIMESTAMP", "CHAR_TO_DATE", "CHAR_TO_TIME")
        ),
        *(("CHAR_TO_TIMESTAMP", "dd'1'" * 30, "1" * count + "!") for count in (60, 75, 90)),
        ("CHAR_TO_TIMESTAMP", "ZSSSSSS" * 40, "+00123456" * 40 + "!"),
    ],
)
def test_a_text_with_many_ways_to_match_ends_at_once(name: str, form: str, text: str) -> None:
    assert "does not have the format" in str(answer(name, form, text))


@pytest.mark.parametrize("name", sorted(FORMATS.keys() & set(READING)))
def test_a_format_of_a_message_has_a_greatest_length(name: str) -> None:
    assert "it has more than 1,000 characters" in str(answer(name, "-" * (MOST_CHARACTERS + 1), "x"))
    assert "does not have the format" in str(answer(name, "-" * MOST_CHARACTERS, "x"))


def test_all_formats_that_read_are_here() -> None:
    assert {name for name in FORMATS if "TO_CHAR" not in name and name != "STRFTIME"} == set(READING)


@pytest.mark.parametrize(
    ("name", "form", "text", "moment"),
    [
        ("STRPTIME", "%a%b%d%Y", "MonJan052026", "2026-01-05"),
        ("STRPTIME", "%d%p%Z%m%Y", "05pmUTC012026", "2026-01-05 12:00"),
        ("STRPTIME", "%d1%m.%Y", "05101.2026", "2026-01-05"),
        ("STRPTIME", "%d.%m.%Y", "5.1.2026", "2026-01-05"),
        ("TO_TIMESTAMP", "DDMonthYYYY", "05January2026", "2026-01-05"),
        ("CHAR_TO_TIMESTAMP", "ddMMMyyyy", "05jAN2026", "2026-01-05"),
    ],
)
def test_fields_without_anything_between_them_are_read(name: str, form: str, text: str, moment: str) -> None:
    wanted = compile_row(Call("CAST", (FieldRef(0, VARCHAR),), TIMESTAMP))((moment,), 0)
    assert answer(name, form, text) == wanted
