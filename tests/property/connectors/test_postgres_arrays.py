"""Columns written as whole arrays reach PostgreSQL as the values they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowtide_connectors.rdbms.arrays import array_parameter, register

pytestmark = pytest.mark.postgres

VALUES = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float4": st.floats(width=32, allow_nan=False),
    "float8": st.floats(allow_nan=False),
    "numeric": st.decimals(
        allow_nan=False, allow_infinity=False, places=6, min_value=-(10**30), max_value=10**30
    ),
    "text": st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
    | st.sampled_from(['"', "\\", "NULL", "null", "{}", ",", "", " ", '","', "a\nb"]),
    "bytea": st.binary(),
}


@pytest.fixture(scope="module")
def connection(postgres_server: Any) -> Iterator[psycopg.Connection[Any]]:
    url = postgres_server.url().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as opened:
        register(opened)
        yield opened


@pytest.mark.parametrize("element", VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_an_array_comes_back_as_it_was_given(
    connection: psycopg.Connection[Any], element: str, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | VALUES[element], max_size=30))
    given = array_parameter(element, values)
    statement = f"select v from unnest(%s::{element}[]) with ordinality as u(v, n) order by n"
    rows = connection.execute(statement.encode(), (given,), binary=element.startswith("float")).fetchall()
    assert [row[0] for row in rows] == values


def test_a_number_that_is_no_number_stays_one(connection: psycopg.Connection[Any]) -> None:
    given = array_parameter("float8", [math.nan, math.inf])
    first, second = (row[0] for row in connection.execute("select unnest(%s::float8[])", (given,)))
    assert math.isnan(first)
    assert second == math.inf


@pytest.mark.parametrize(("element", "value"), [("int2", 2**15), ("int4", -(2**31) - 1), ("int8", 2**63)])
def test_a_number_too_large_for_its_type_is_told(element: str, value: int) -> None:
    with pytest.raises(OverflowError):
        array_parameter(element, [1, value])


def test_a_decimal_keeps_its_digits(connection: psycopg.Connection[Any]) -> None:
    value = Decimal("12345678901234567890123456789012.123456")
    (row,) = connection.execute("select unnest(%s::numeric[])", (array_parameter("numeric", [value]),))
    assert row == (value,)
