"""SPLIT_PART over a column against SPLIT_PART of one value, whatever is in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef, Literal
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType

ROW = RowType((Field("TEXT", VARCHAR),))
TEXTS = st.none() | st.text("ab,é/", max_size=8)


@given(st.lists(TEXTS, max_size=6), st.sampled_from((",", "/", "ab", "é", "")), st.integers(-4, 4))
def test_all_values_of_a_column_are_split_as_one_is(
    texts: list[str | None], separator: str, number: int
) -> None:
    parts = Call(
        "SPLIT_PART", (FieldRef(0, VARCHAR), Literal(separator, VARCHAR), Literal(number, BIGINT)), VARCHAR
    )
    rows = [TimedRow(at, 0, at, Opcode.INSERT, (text,)) for at, text in enumerate(texts)]
    found = compile_columns(parts)(Tray.from_rows(ROW, rows))
    one = compile_row(parts)
    rejected = [] if found.errors is None else found.errors.rows.tolist()
    for at, value in enumerate(found.column.to_list()):
        if at in rejected:
            with pytest.raises(RejectedRowError):
                one((texts[at],), 0)
        else:
            assert value == one((texts[at],), 0)
