"""Every function that PostgreSQL has, too, returns what PostgreSQL does; the page of differences has the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from property.expr.shared_calls import ALONE, CALLS
from property.expr.shared_functions import NAMES, REJECTED, Shared, answers, differences, given
from rowtide.rows.types import Kind, Type
from rowtide.sql.expressions.function_calls import scalar_functions

PAGE = Path(__file__).parents[3] / "docs/sql/differences-from-postgresql.md"
OF_POSTGRESQL = {
    "DOUBLE": "float8",
    "VARCHAR": "text",
    "JSON": "json",
    "VARBINARY": "bytea",
    "INTERVAL DAY TO SECOND": "interval",
}
READ = {Kind.DATE: date.fromisoformat, Kind.TIME: time.fromisoformat, Kind.TIMESTAMP: datetime.fromisoformat}


def theirs_type(kind: str) -> str:
    """Return a type as PostgreSQL spells it, without digits and lengths."""
    element, is_array, _ = kind.partition(" ARRAY")
    plain = re.sub(r"\(.*?\)", "", element)
    return OF_POSTGRESQL.get(plain, plain) + "[]" * bool(is_array)


@pytest.fixture(scope="module")
def connection(postgres_server: Any) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url().replace("+psycopg", ""), autocommit=True) as opened:
        opened.execute("SET TIME ZONE 'UTC'")
        yield opened


def computed(connection: psycopg.Connection[Any], case: Shared, kind: Type) -> list[object]:
    """Return what PostgreSQL returns for each row: of an error, REJECTED."""
    types = [theirs_type(each) for each in case.types]
    parameters = ", ".join(f"{name} {each}" for name, each in zip(NAMES, types, strict=False))
    result = theirs_type(str(kind))
    # A call that cannot be read is an error of this table, and not of a row.
    connection.execute(
        f"""CREATE OR REPLACE FUNCTION pg_temp.attempt({parameters}, OUT failed boolean, OUT shown text)
        LANGUAGE plpgsql AS $body$ BEGIN failed := false; shown := (({case.spelled("postgres")})::{result})::text;
        EXCEPTION WHEN syntax_error_or_access_rule_violation THEN RAISE; WHEN OTHERS THEN failed := true; END $body$
        """.encode()
    )
    names = ", ".join(NAMES[: len(types)])
    rows = given(case)
    one = f"(%s::int, {', '.join(f'%s::{each}' for each in types)})"
    values = [value for at, row in enumerate(rows) for value in (at, *row)]
    read = "text" if kind.kind in READ or kind.kind is Kind.JSON else result
    found = connection.execute(
        f"""SELECT failed, shown::{read} FROM (VALUES {", ".join([one] * len(rows))}) AS v (n, {names}),
        LATERAL pg_temp.attempt({names}) ORDER BY n""".encode(),
        values,
    ).fetchall()
    connection.execute(f"DROP FUNCTION pg_temp.attempt({', '.join(types)})".encode())
    return [REJECTED if failed else _read(value, kind) for failed, value in found]


def _read(value: Any, kind: Type) -> object:
    if value is None or kind.kind not in READ:
        return value
    try:
        return READ[kind.kind](value)
    except ValueError:
        return value


@pytest.mark.postgres
@pytest.mark.parametrize("case", [each for each in CALLS if each.postgres is not None], ids=str)
def test_postgresql_returns_the_same(case: Shared, connection: psycopg.Connection[Any]) -> None:
    kind, ours = answers(case.ours, case)
    assert not {None, REJECTED}.issuperset(map(_hashed, ours))
    assert differences("postgres", case, computed(connection, case, kind)) == []


def _hashed(value: object) -> object:
    return str(value) if isinstance(value, list) else value


def test_what_is_different_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert [
        str(case) for case in CALLS if "postgres" in case.apart and (not case.line or case.line not in page)
    ] == []


def test_every_function_is_compared() -> None:
    """A function of this name is in the table, or it says why not."""
    called = {name for case in CALLS for name in re.findall(r"[A-Z][A-Z0-9_]*(?=\()", case.ours)}
    assert sorted(scalar_functions() - called - ALONE.keys()) == []
    assert sorted(ALONE.keys() - scalar_functions()) == []
