"""CSV and RAW: how a message is cut into fields; what they mean is in tests/scenarios/rows."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.codec.registry import decoder_for
from rowtide.errors import StatementError
from rowtide.rows.types import INTEGER, VARCHAR, Field, RowType

THREE = RowType((Field("A", VARCHAR), Field("B", VARCHAR), Field("C", VARCHAR)))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3), max_size=4))
def test_what_pythons_writer_quotes_is_read_back(records: list[list[str]]) -> None:
    messages = []
    for record in records:
        written = io.StringIO(newline="")
        csv.writer(written, quoting=csv.QUOTE_ALL).writerow(record)
        messages.append(written.getvalue().encode())
    decoded = decoder_for("csv", "S", THREE).decode(messages)
    assert not decoded.faults
    assert list(zip(*(column.to_list() for column in decoded.columns), strict=True)) == list(
        map(tuple, records)
    )


@given(st.lists(TEXTS.filter(lambda text: text and not set(text) & set(',"\r\n')), min_size=3, max_size=3))
def test_plain_fields_are_what_stands_between_commas(record: list[str]) -> None:
    decoded = decoder_for("CSV", "S", THREE).decode([",".join(record).encode()])
    assert [column.to_list() for column in decoded.columns] == [[text] for text in record]


@pytest.mark.parametrize("row_type", [RowType((Field("A", INTEGER),)), THREE])
def test_raw_takes_one_column_of_text_or_bytes(row_type: RowType) -> None:
    with pytest.raises(StatementError, match="one column, of text or bytes"):
        decoder_for("RAW", "S", row_type)
