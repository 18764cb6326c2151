"""Hints for what other systems have are given only for what does not exist here."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.expr.aggregates import OF_GROUPS
from rowtide.expr.functions import FUNCTIONS
from rowtide.sql.grammar import habits
from rowtide.sql.pipeline import SqlSession


def refused(query: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        SqlSession().query(query)
    return caught.value


@pytest.mark.parametrize("name", sorted(habits.FUNCTIONS))
def test_a_function_with_a_hint_does_not_exist(name: str) -> None:
    assert name not in FUNCTIONS
    assert name not in OF_GROUPS
    error = refused(f"SELECT {name}(n, n) AS x FROM (VALUES (1)) AS v (n)")
    assert name in str(error)
    assert error.hint is not None


@pytest.mark.parametrize("name", sorted(habits.COLUMNS))
def test_a_name_with_a_hint_is_no_column(name: str) -> None:
    error = refused(f"SELECT {name} AS x FROM (VALUES (1)) AS v (n)")
    assert error.hint == habits.COLUMNS[name]


@pytest.mark.parametrize("name", sorted(habits.TYPES))
def test_a_type_with_a_hint_does_not_exist(name: str) -> None:
    error = refused(f"SELECT CAST(n AS {name}) AS x FROM (VALUES (1)) AS v (n)")
    assert error.hint == habits.TYPES[name]


def test_concat_takes_one_text_or_more() -> None:
    assert SqlSession().query("SELECT CONCAT('a') AS x, CONCAT('a', 'b') AS y FROM (VALUES (1)) AS v (n)")
