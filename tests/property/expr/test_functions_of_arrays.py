"""Functions of arrays over long columns with NULLs, guards and rows that fail, against plain Python."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.expr import array_functions
from rowtide.expr.columnar import compile_columns
from rowtide.expr.tree import Call, FieldRef, Literal, PythonCall, PythonFunction
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)

ROW_TYPE = RowType((Field("GUARD", BOOLEAN), Field("N", INTEGER)))
FAILED = "the row failed"
RESULTS: dict[Type, Any] = {
    DOUBLE: lambda n: n / 4,
    Type(Kind.REAL): lambda n: n / 4,
    INTEGER: lambda n: n * 1_000,
    Type(Kind.TINYINT): lambda n: n,
    BIGINT: lambda n: n * 10**15,
    BOOLEAN: lambda n: n % 2 == 0,
    DATE: lambda n: n,
    decimal(9, 2): lambda n: Decimal(n) / 4,
    VARCHAR: lambda n: f"n{n}",
    Type(Kind.VARBINARY): lambda n: b"n" * (n % 5),
}
"""For each type a result; some TINYINTs do not fit."""


@pytest.mark.parametrize("form", ["numpy", "arrow"])
@pytest.mark.parametrize("takes_null", [True, False])
@given(
    st.sampled_from(sorted(RESULTS, key=str)),
    st.lists(st.tuples(st.none() | st.booleans(), st.none() | st.integers(-200, 200)), max_size=40),
    st.booleans(),
)
def test_the_rows_that_are_wanted_have_their_own_results(
    form: str, takes_null: bool, returns: Type, rows: list[tuple[bool | None, int | None]], guards: bool
) -> None:
    array_functions.CURRENT[:] = [RESULTS[returns]]
    path = f"property.expr.array_functions:of_{form}"
    of = PythonFunction("F", path, (INTEGER,), returns, takes_null, form, "")
    call: Call = PythonCall("F", (FieldRef(1, INTEGER),), returns, of)
    if guards:
        call = Call("CASE", (FieldRef(0, BOOLEAN), call, Literal(None, returns)), returns)
    timed = [TimedRow(at, 0, at, Opcode.INSERT, row) for at, row in enumerate(rows)]
    evaluated = compile_columns(call)(Tray.from_rows(ROW_TYPE, timed))
    found: list[Any] = evaluated.column.to_list()
    for row in () if evaluated.errors is None else evaluated.errors.rows.tolist():
        found[row] = FAILED
    assert found == [None if guards and not guard else plain(returns, number) for guard, number in rows]


def plain(returns: Type, number: int | None) -> Any:
    try:
        value = array_functions.one(number)
    except ValueError:
        return FAILED
    if returns.kind is Kind.TINYINT and value is not None and not -128 <= value <= 127:
        return FAILED
    return value
