"""Statements are cut by rows, by bytes, and further where the server cancels those that take too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.errors import RefusedRowsError, UnavailableError
from rowtide_connectors.rdbms import chunks, postgres
from rowtide_connectors.rdbms.chunks import Chunks
from rowtide_connectors.rdbms.sql_type import parse_type
from rowtide_connectors.rdbms.table import PhysicalColumn
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink
from support.waiting import wait_until

TABLE = TargetTable("o", (TableColumn("ID", "BIGINT", nullable=False), TableColumn("X", "VARCHAR")), ("ID",))
TIMED = {
    "postgres": {"options": "-c statement_timeout=120"},
    "mariadb": {"init_command": "set session max_statement_time = 0.12"},
}
SLOW = {
    "postgres": (
        "create table o (id bigint primary key, x text)",
        "create function f() returns trigger language plpgsql as $$ begin"
        " perform pg_sleep(case new.x when 'slow' then 10 else 0.002 end);"
        " if new.x = 'bad' then raise 'no'; end if; return new; end $$",
        "create trigger t before insert on o for each row execute function f()",
    ),
    "mariadb": (
        "create table o (id bigint primary key, x varchar(8))",
        "create trigger t before insert on o for each row begin"
        " do sleep(if(new.x = 'slow', 10, 0.002));"
        " if new.x = 'bad' then signal sqlstate '45000'; end if; end",
    ),
}
on_servers = pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("postgres", "mariadb")]
)


@pytest.fixture
def timed(kind: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database that cancels statements of about 60 rows."""
    url: str = request.getfixturevalue(f"{kind}_url")
    with closing(find_sink("rdbms").open({"url": url})) as database, database.begin() as transaction:
        for statement in SLOW[kind]:
            sql_connection(transaction).exec_driver_sql(statement)
    slow = sa.make_url(url).update_query_dict(TIMED[kind]).render_as_string(hide_password=False)
    with closing(find_sink("rdbms").open({"url": slow})) as database:
        wait_until(lambda: is_prepared(database))
        yield database


def is_prepared(database: Database) -> bool:
    """Prepare the table; a busy server may cancel a query of its catalog, too."""
    try:
        database.prepare([TABLE])
    except UnavailableError:
        return False
    return True


def until_it_is_done(commit: Callable[[], None]) -> int:
    """Repeat a commit as a service does; return how often it was not done."""
    for failures in range(20):
        try:
            commit()
        except UnavailableError as error:
            assert "takes too long" not in error.message
        else:
            return failures
    raise AssertionError("the same statement is repeated for ever")


def values_of(rows: Sequence[tuple[int, str]]) -> dict[str, list[Any]]:
    return {"ID": [number for number, _ in rows], "X": [text for _, text in rows]}


@on_servers
def test_statements_that_the_server_cancels_are_repeated_with_fewer_rows(timed: Database) -> None:
    rows = [(number, "a") for number in range(150)]

    def commit() -> None:
        with timed.begin() as transaction:
            transaction.upsert(TABLE, values_of(rows))

    def delete() -> None:
        with timed.begin() as transaction:
            assert sorted(transaction.rows(TABLE)) == rows
            transaction.delete(TABLE, {"ID": list(range(150))})

    # Once on an idle machine; a busy one has its statements halved again, down to one row.
    assert 1 <= until_it_is_done(commit) <= len(rows).bit_length()
    until_it_is_done(delete)


@on_servers
def test_refused_rows_are_found_in_statements_that_end_in_time(timed: Database) -> None:
    rows = [(number, "bad" if number in (3, 70) else "a") for number in range(100)]
    with timed.sift() as transaction:
        with pytest.raises(RefusedRowsError) as met:
            transaction.upsert(TABLE, values_of(rows))
        assert sorted(met.value.rows) == [3, 70]
        assert len(list(transaction.rows(TABLE))) == 98


@on_servers
@pytest.mark.parametrize("sifts", [False, True])
def test_a_row_that_alone_takes_too_long_is_waited_for_and_named(timed: Database, sifts: bool) -> None:
    met: list[UnavailableError] = []
    for _ in range(3):
        try:
            with timed.sift() if sifts else timed.begin() as transaction:
                transaction.upsert(TABLE, values_of([(1, "a"), (2, "slow"), (3, "a")]))
        except UnavailableError as error:
            met.append(error)
    assert 'one row of table "o" alone takes too long' in met[-1].message
    assert "statement_timeout" in str(met[-1].hint)


@given(
    sizes=st.lists(st.none() | st.integers(0, 60), min_size=1, max_size=40),
    most_rows=st.integers(1, 15),
    most_bytes=st.integers(1, 100),
)
def test_each_statement_is_as_large_as_the_limits_allow(
    sizes: list[int | None], most_rows: int, most_bytes: int
) -> None:
    column = PhysicalColumn("X", "x", parse_type("VARCHAR"), nullable=True)
    columns = [(column, [None if size is None else "a" * size for size in sizes])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ROWS", most_rows)
        patch.setattr(chunks, "WRITE_BYTES", most_bytes)
        limits, ends = Chunks(), [0]
        while ends[-1] < len(sizes):
            ends.append(limits.end(columns, ends[-1]))
    lengths = [size or 0 for size in sizes]
    for start, end in pairwise(ends):
        assert 1 <= end - start <= most_rows
        assert end - start == 1 or sum(lengths[start:end]) <= most_bytes
        assert end == len(sizes) or end - start == most_rows or sum(lengths[start : end + 1]) > most_bytes


@pytest.mark.postgres
def test_a_row_that_is_larger_than_a_message_of_postgresql_is_refused_alone(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LARGEST_ROW_BYTES", 1_000)
    monkeypatch.setattr(chunks, "WRITE_BYTES", 400)
    with closing(find_sink("rdbms").open({"url": postgres_url})) as database:
        database.prepare([TABLE])
        rows = [(0, "a" * 200), (1, "\u20ac" * 400), (2, "a" * 990), (3, "b")]
        with (
            pytest.raises(RefusedRowsError, match=r"the row has 12\d+ bytes"),
            database.begin() as transaction,
        ):
            transaction.upsert(TABLE, values_of(rows))
        with database.sift() as transaction:
            with pytest.raises(RefusedRowsError) as met:
                transaction.upsert(TABLE, values_of(rows))
            assert list(met.value.rows) == [1]
            assert {number for number, _ in transaction.rows(TABLE)} == {0, 2, 3}
