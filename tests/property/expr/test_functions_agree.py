"""Each function by itself: columns give what rows give, bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.expr.expression_trees import ROW_TYPE, calls, timed_rows
from property.expr.test_expressions_agree import by_column, by_row
from rowtide.expr.columnar import compile_columns
from rowtide.rows.tray import Tray

NAMES = (
    *("&", "|", "#", "~", "<<", ">>", "BIT_COUNT", "ILIKE", "@>", "<@", "STRFTIME", "STRPTIME"),
    *("CONCAT_WS", "REGEXP_EXTRACT", "MD5", "SHA256", "CRC32", "HEX", "TO_HEX", "UNHEX"),
    *("GCD", "LCM", "FACTORIAL", "ASINH", "ACOSH", "ATANH", "MAKE_DATE", "MAKE_TIME", "EXTRACT", "FLOOR_TO"),
    *("AGE MONTHS", "AGE REST", "TSDIFF MONTHS"),
    *("TO_BASE64", "FROM_BASE64", "URL_ENCODE", "URL_DECODE", "QUOTE_IDENT", "QUOTE_LITERAL"),
    *(
        "PERIOD OVERLAPS",
        "PERIOD STRICTLY LAGS",
        "PERIOD IMMEDIATELY PRECEDES",
        "FROM_UTC_TIMESTAMP",
        "TO_UTC_TIMESTAMP",
        "FROM_TZ",
    ),
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_columns_of_one_function_give_what_rows_give(name: str, data: st.DataObject) -> None:
    expr = data.draw(calls(name, depth=data.draw(st.integers(1, 2))))
    rows = data.draw(timed_rows())
    evaluated = compile_columns(expr)(Tray.from_rows(ROW_TYPE, rows))
    assert by_column(evaluated) == by_row(expr, rows)
    assert evaluated.column.type == expr.type
