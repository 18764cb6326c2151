"""A value that a database returns is one of its declared type exactly, or is refused: none is cut or rounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.plan.plan import ForeignTable
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rowtide.runtime.state.declared_rows import declared_rows
from rowtide.sql.pipeline import plan_pipeline

DAY_MS = 86_400_000
DIGITS = st.builds(
    lambda units, scale: Decimal(units).scaleb(-scale), st.integers(-99_999, 99_999), st.integers(0, 4)
)
INTEGERS = st.integers(-(2**64), 2**64) | st.sampled_from(
    [side * 2**bits + by for side in (-1, 1) for bits in (7, 15, 31, 63) for by in (-1, 0, 1)]
)
TEXTS = st.text("aé ", max_size=5)
BYTES = st.binary(max_size=4) | st.sampled_from([b"\0" * 4, b"a\0\0"])
TIMES = st.sampled_from([MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS, 0]).flatmap(
    lambda at: st.integers(at - 2, at + 2)
)
DAYS = TIMES.map(lambda at: at // DAY_MS)


def whole(bits: int) -> Callable[[Any], bool]:
    return lambda value: -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def fits_in_4_2(value: Decimal) -> bool:
    return value.is_finite() and value == round(value, 2) and abs(value) < 100


def array_of(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | elements, max_size=3)


def each(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: all(value is None or fits(value) for value in values)


def is_time(at: int) -> bool:
    return MIN_TIMESTAMP_MS <= at <= MAX_TIMESTAMP_MS


TYPES: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], bool]]] = {
    "BOOLEAN": (st.booleans() | st.just("x"), lambda value: isinstance(value, bool)),
    "TINYINT": (INTEGERS, whole(8)),
    "SMALLINT": (INTEGERS, whole(16)),
    "INTEGER": (INTEGERS | DIGITS, lambda value: isinstance(value, int) and whole(32)(value)),
    "BIGINT": (INTEGERS | st.just("1"), lambda value: isinstance(value, int) and whole(64)(value)),
    "DOUBLE": (st.floats(allow_nan=False), lambda _: True),
    "DECIMAL(4, 2)": (DIGITS | st.sampled_from([Decimal("NaN"), Decimal("Infinity")]), fits_in_4_2),
    "DECIMAL(38, 2)": (DIGITS, lambda value: bool(value == round(value, 2))),
    "VARCHAR(3)": (TEXTS, lambda value: len(value) <= 3),
    "VARCHAR": (TEXTS | st.just(1), lambda value: isinstance(value, str)),
    "CHAR(3)": (TEXTS, lambda value: not value[3:].strip(" ")),
    "VARBINARY(2)": (BYTES, lambda value: len(value) <= 2),
    "BINARY(2)": (BYTES, lambda value: len(value) <= 2),
    "DATE": (DAYS, lambda day: MIN_TIMESTAMP_MS // DAY_MS <= day <= MAX_TIMESTAMP_MS // DAY_MS),
    "TIME": (st.sampled_from([-1, 0, DAY_MS - 1, DAY_MS]), lambda at: 0 <= at < DAY_MS),
    "TIMESTAMP": (TIMES, is_time),
    "TIMESTAMP WITH TIME ZONE": (TIMES, is_time),
    "DECIMAL(4, 2) ARRAY": (array_of(DIGITS), each(fits_in_4_2)),
    "SMALLINT ARRAY": (
        array_of(INTEGERS | DIGITS),
        each(lambda value: value == int(value) and whole(16)(value)),
    ),
    "VARCHAR(3) ARRAY": (array_of(TEXTS), each(lambda value: not value[3:].strip(" "))),
}
"""Values that columns of a database may have, by the declared type, and which of them are of that type."""


def table(kind: str) -> ForeignTable:
    (found,) = plan_pipeline(
        "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');"
        f"CREATE FOREIGN TABLE t (c {kind}, k INTEGER PRIMARY KEY, n INTEGER NOT NULL) SERVER d;"
    ).foreign_tables
    return found


TABLES = {kind: table(kind) for kind in TYPES}


def as_given(value: Any) -> Any:
    """Return a value as connectors give it: an array is text."""
    return f"[{', '.join(map(element_text, value))}]" if isinstance(value, list) else value


def element_text(element: Any) -> str:
    return str(element) if isinstance(element, Decimal) else json.dumps(element)


@pytest.mark.parametrize("kind", TYPES)
@given(data=st.data())
def test_a_value_comes_out_as_it_is_or_not_at_all(kind: str, data: st.DataObject) -> None:
    values, fits = TYPES[kind]
    value = data.draw(values)
    rows = declared_rows(TABLES[kind], [(as_given(value), 1, 2)])
    if not fits(value):
        with pytest.raises(RejectedRowError, match='column "C"'):
            list(rows)
        return
    expected = tuple(value) if isinstance(value, list) else value
    if kind.startswith(("CHAR", "VARCHAR(3) ARRAY")):
        cut = [each and each[:3] for each in value] if isinstance(value, list) else value[:3]
        expected = tuple(cut) if isinstance(cut, list) else cut
    assert list(rows) == [(expected, 1, 2)]


@pytest.mark.parametrize("kind", TYPES)
def test_null_is_refused_only_where_it_is_declared_so(kind: str) -> None:
    assert list(declared_rows(TABLES[kind], [(None, 1, 2)])) == [(None, 1, 2)]
    for row, name in (((None, None, 2), "K"), ((None, 1, None), "N")):
        with pytest.raises(RejectedRowError, match=f'column "{name}" is NULL'):
            list(declared_rows(TABLES[kind], [row]))
