"""A function that Numba compiles is a function of NumPy arrays."""

from __future__ import annotations

from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import FieldRef, PythonCall, PythonFunction
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, INTEGER, Field, RowType
from rowtide.sql.pipeline import SqlSession


def test_a_compiled_function_is_called_with_arrays_and_with_one_row() -> None:
    session = SqlSession()
    session.feed(
        "CREATE FUNCTION scaled(x DOUBLE, n INTEGER) RETURNS DOUBLE LANGUAGE PYTHON STRICT "
        "OPTIONS (form 'numpy') AS 'unit.expr.compiled_function.scaled'"
    )
    (function,) = session.functions
    assert isinstance(function.body, PythonFunction)
    call = PythonCall("SCALED", (FieldRef(0, DOUBLE), FieldRef(1, INTEGER)), DOUBLE, function.body)
    rows: list[tuple[object, ...]] = [(1.5, 2), (None, 2), (4.0, -1)]
    row_type = RowType((Field("X", DOUBLE), Field("N", INTEGER)))
    tray = Tray.from_rows(row_type, [TimedRow(at, 0, at, Opcode.INSERT, row) for at, row in enumerate(rows)])
    assert compile_columns(call)(tray).column.to_list() == [3.5, None, -3.5]
    assert [compile_row(call)(row, 0) for row in rows] == [3.5, None, -3.5]
