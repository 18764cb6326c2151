"""What a function in Python may return for each SQL type, and what its errors say."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pytest

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.python.calls import Called
from rowtide.expr.python.loading import LoadingError, function_path
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.tree import PythonFunction
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)


class Color(IntEnum):
    RED = 1


class Word(str):
    """A text that is more than a text."""


REAL = Type(Kind.REAL)
SHORT = Type(Kind.VARCHAR, 3)
BYTES = Type(Kind.VARBINARY, 2)

FITS = (
    (BOOLEAN, True, True),
    (BOOLEAN, np.bool_(False), False),
    (INTEGER, 2**31 - 1, 2**31 - 1),
    (INTEGER, np.int64(7), 7),
    (INTEGER, Color.RED, 1),
    (BIGINT, -(2**63), -(2**63)),
    (DOUBLE, 1, 1.0),
    (DOUBLE, np.float32(0.5), 0.5),
    (DOUBLE, math.inf, math.inf),
    (REAL, 0.1, 0.10000000149011612),
    (decimal(4, 2), 7, Decimal("7.00")),
    (decimal(4, 2), Decimal("1.005"), Decimal("1.01")),
    (decimal(4, 2), Decimal("-1.005"), Decimal("-1.01")),
    (decimal(4, 2), Decimal("1e-1000"), Decimal("0.00")),
    (decimal(4, 2), Decimal("-0.001"), Decimal("0.00")),
    (decimal(38, 0), Decimal(10**38 - 1), Decimal(10**38 - 1)),
    (decimal(3, 1), Decimal("0." + "3" * 200), Decimal("0.3")),
    (SHORT, "abc", "abc"),
    (SHORT, "abc  ", "abc"),
    (SHORT, Word("ab"), "ab"),
    (VARCHAR, "é", "é"),
    (BYTES, bytearray(b"ab"), b"ab"),
    (BYTES, b"ab\0", b"ab"),
    (DATE, 19_782, 19_782),
    (TIME, 0, 0),
    (TIMESTAMP, 253_402_300_799_999, 253_402_300_799_999),
)
MISFITS = (
    (BOOLEAN, 1, "not a bool"),
    (INTEGER, True, "not an int"),
    (INTEGER, 1.0, "not an int"),
    (INTEGER, "1", "not an int"),
    (INTEGER, 2**31, "out of range for INTEGER"),
    (INTEGER, np.datetime64("2024-01-01"), "not an int"),
    (DOUBLE, "1", "not a float"),
    (DOUBLE, Decimal(1), "not a float"),
    (DOUBLE, True, "not a float"),
    (DOUBLE, 10**400, "out of range for DOUBLE"),
    (DOUBLE, 1j, "not a float"),
    (REAL, 1e300, "out of range for REAL"),
    (decimal(4, 2), 1.5, "not a Decimal or an int"),
    (decimal(4, 2), 100, "out of range for DECIMAL(4, 2)"),
    (decimal(4, 2), Decimal("99.995"), "out of range for DECIMAL(4, 2)"),
    (decimal(4, 2), Decimal("1e999999"), "out of range for DECIMAL(4, 2)"),
    (decimal(4, 2), Decimal("NaN"), "out of range for DECIMAL(4, 2)"),
    (SHORT, "abcd", "longer than VARCHAR(3)"),
    (SHORT, b"ab", "not a str"),
    (VARCHAR, "\ud800", "not valid Unicode"),
    (BYTES, "ab", "not bytes"),
    (BYTES, b"abc", "longer than VARBINARY(2)"),
    (DATE, 10**7, "out of range for DATE"),
    (TIME, 86_400_000, "out of range for TIME"),
    (TIMESTAMP, 253_402_300_800_000, "out of range for TIMESTAMP"),
    (TIMESTAMP, 1.5, "milliseconds since 1970-01-01 UTC"),
)


@pytest.mark.parametrize(("kind", "value", "stored"), FITS, ids=lambda value: str(value)[:20])
def test_a_value_of_the_type_is_stored(kind: Type, value: object, stored: object) -> None:
    found = fit_of(kind)(value)
    assert (type(found), found) == (type(stored), stored)
    assert str(found) == str(stored), "the sign of zero, and the digits of a DECIMAL"


@pytest.mark.parametrize(("kind", "value", "why"), MISFITS, ids=lambda value: str(value)[:20])
def test_another_value_is_refused(kind: Type, value: object, why: str) -> None:
    with pytest.raises(ResultMisfit) as found:
        fit_of(kind)(value)
    assert why in str(found.value)


def called(function: Callable[..., object]) -> Called:
    return Called(PythonFunction("F", "m:f", (), INTEGER, True, "rows", ""), function, function)


def rejection(function: object, *args: object) -> str:
    assert callable(function)
    with pytest.raises(RejectedRowError) as found:
        called(function)(*args)
    assert found.value.reason is Reason.FUNCTION
    return found.value.message


def test_an_exception_is_named_with_the_line_of_the_function_and_not_of_a_library() -> None:
    def parsed(text: str) -> int:
        return int(Decimal(text).scaleb("x"))  # type: ignore[arg-type]

    line = parsed.__code__.co_firstlineno + 1
    assert rejection(parsed, "1").startswith('F("1") raised ')
    assert rejection(parsed, "1").endswith(f"(test_python_results.py, line {line})")


def test_an_exception_of_a_built_in_function_has_no_line() -> None:
    assert (
        rejection(math.factorial, -1)
        == "F(-1) raised ValueError: factorial() not defined for negative values"
    )


def test_a_recursion_without_end_an_exit_and_a_request_for_too_much_memory_reject_the_row() -> None:
    def again(value: int) -> int:
        return again(value)

    def leave(value: int) -> int:
        raise SystemExit(value)

    assert "raised RecursionError" in rejection(again, 1)
    assert "raised SystemExit: 3" in rejection(leave, 3)
    assert "raised MemoryError" in rejection(lambda count: len(bytearray(count)), 2**62)


def test_what_ends_the_process_on_purpose_does_so() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        called(interrupted)()


def test_long_texts_and_objects_do_not_fill_the_error_row() -> None:
    def shout(text: str) -> int:
        raise ValueError(text)

    assert len(rejection(shout, "x" * 10_000)) < 400
    assert (
        rejection(lambda: 10**5000) == "F() returned a value of type int, which is out of range for INTEGER"
    )
    assert rejection(lambda: {"a": 1}) == "F() returned a value of type dict, which is not an int"


@pytest.mark.parametrize(
    ("written", "path"),
    [("a.b", "a:b"), ("a.b.c", "a.b:c"), ("a.b:c", "a.b:c"), ("a:b.c", "a:b.c")],
)
def test_a_path_names_module_and_function(written: str, path: str) -> None:
    assert function_path(written) == path


@pytest.mark.parametrize("written", ["", "a", ".a", "a.", "a:", ":a", "a b.c", "a..b", "a:b:c"])
def test_another_path_is_refused(written: str) -> None:
    with pytest.raises(LoadingError):
        function_path(written)
