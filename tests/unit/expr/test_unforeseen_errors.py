"""A function that raises what no one foresaw rejects the row that made it, and no other."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from rowtide.errors import FaultError, Reason, RejectedRowError, rejection_of
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import registry
from rowtide.expr.functions.function import strict
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, VARCHAR, Field, Kind, RowType, Type, decimal

ROW_TYPE = RowType((Field("A", BIGINT),))
CALL = Call("+", (Call("BRITTLE", (FieldRef(0, BIGINT),), BIGINT), FieldRef(0, BIGINT)), BIGINT)
TRAY = Tray.from_rows(ROW_TYPE, [TimedRow(0, 0, n, Opcode.INSERT, (n,)) for n in range(3)])


def _of_row(value: int) -> int:
    if value == 1:
        raise ZeroDivisionError("no one foresaw 1")
    return value


def _of_column(values: Any) -> tuple[Any, None]:
    if (values == 1).any():
        raise ValueError("the column is no good")
    return values, None


@pytest.mark.parametrize("kernel", [None, _of_column], ids=["row by row", "with a kernel"])
def test_only_the_row_is_rejected_that_makes_the_function_fail(kernel: Any) -> None:
    brittle = strict("BRITTLE", lambda _: BIGINT, lambda _: _of_row, lambda _: kernel)
    with patch.dict(registry._DECLARED, BRITTLE=brittle), patch.dict(registry.FUNCTIONS, BRITTLE=brittle):
        found = compile_columns(CALL)(TRAY)
        by_row = compile_row(CALL)
        assert found.column.to_list() == [0, None, 4]
        assert found.errors is not None
        assert found.errors.rows.tolist() == [1]
        (why,) = found.errors
        assert (why.reason, why.message) == (Reason.FUNCTION, "ZeroDivisionError: no one foresaw 1")
        assert by_row((2,), 0) == 4
        with pytest.raises(RejectedRowError) as raised:
            by_row((1,), 0)
        assert (raised.value.reason, raised.value.message) == why


def test_no_number_in_text_makes_a_cast_raise_or_warn() -> None:
    texts = ["1e1000000", "-1e2147483647", "1e-1000000", "1e999999999999999999", "9" * 5000]
    rows = [TimedRow(0, 0, n, Opcode.INSERT, (text,)) for n, text in enumerate(texts)]
    tray = Tray.from_rows(RowType((Field("A", VARCHAR),)), rows)
    for kind in (BIGINT, DOUBLE, Type(Kind.REAL), decimal(10, 2), decimal(38, 0), decimal(38, 38)):
        with np.errstate(all="raise"):
            found = compile_columns(Call("CAST", (FieldRef(0, VARCHAR),), kind))(tray)
        assert found.errors is not None
        assert {why.reason for why in found.errors} == {Reason.OVERFLOW}
        assert found.errors.rows.tolist() == [0, 1, 3, 4]


def test_errors_of_the_pipeline_and_of_the_machine_are_no_rejections() -> None:
    for error in (FaultError("an invariant broke"), MemoryError()):
        with pytest.raises(type(error)):
            rejection_of(error, Reason.FUNCTION)
    refused = RejectedRowError(Reason.CAST, "no")
    assert rejection_of(refused, Reason.FUNCTION) is refused
    assert rejection_of(ValueError("x" * 900), Reason.DECODE).message == f"ValueError: {'x' * 200}..."
    assert rejection_of(KeyError(), Reason.DECODE).message == "KeyError"
