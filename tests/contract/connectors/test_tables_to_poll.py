"""Tables to poll, on SQLite and on real PostgreSQL and MariaDB: rows, values, what changed, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowtide_connectors.api import PolledTable, TableColumn, TargetTable
from rowtide_connectors.errors import DeniedError, GoneError, MismatchError, UnavailableError
from rowtide_connectors.rdbms import CONNECTOR


def covers(place: str) -> pytest.MarkDecorator:
    return pytest.mark.covers("rdbms", "tables as sources", place)


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=covers("SQLite")),
        pytest.param("postgres", marks=[pytest.mark.postgres, covers("PostgreSQL, a real server")]),
        pytest.param("mariadb", marks=[pytest.mark.mariadb, covers("MariaDB, a real server")]),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param != "sqlite":
        return str(request.getfixturevalue(f"{request.param}_url"))
    return f"sqlite:///{tmp_path / 'source.db'}"


@pytest.fixture
def database(url: str) -> Iterator[sa.Engine]:
    address = sa.make_url(url)
    kind = address.get_backend_name()
    drivers = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql", "mysql": "mysql+pymysql"}
    engine = sa.create_engine(address.set(drivername=drivers.get(kind, kind)))
    yield engine
    engine.dispose()


def run(database: sa.Engine, *statements: str) -> None:
    with database.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql")


def moment(url: str) -> str:
    """Return the type of a time with digits after the second, which may be NULL."""
    return "timestamp" if is_sqlite(url) or is_postgres(url) else "datetime(6)"


def opened(url: str, columns: dict[str, str], key: Sequence[str] = ("ID",), **options: str) -> PolledTable:
    declared = tuple(TableColumn(name, kind) for name, kind in columns.items())
    assert CONNECTOR.polled is not None
    return CONNECTOR.polled.open({"url": url}, TargetTable("PEOPLE", declared, tuple(key), options))


def rows(table: PolledTable, since: str | None = None) -> tuple[list[tuple[object, ...]], str | None]:
    with closing(table), table.read(since) as read:
        return [row for chunk in read.chunks() for row in chunk], read.reached


def test_rows_come_in_the_order_of_the_key_in_groups(url: str, database: sa.Engine) -> None:
    run(database, "create table people (id integer primary key, name varchar(9))")
    with database.begin() as connection:
        connection.execute(
            sa.text("insert into people values (:id, :name)"),
            [{"id": number * 7919 % 5003, "name": f"n{number}"} for number in range(5003)],
        )
    with closing(opened(url, {"ID": "INTEGER", "NAME": "VARCHAR(9)"})) as table, table.read(None) as read:
        groups = list(read.chunks())
    assert [row[0] for group in groups for row in group] == list(range(5003))
    assert max(map(len, groups)) <= 2_000
    assert read.reached is None


def test_values_are_those_of_json(url: str, database: sa.Engine) -> None:
    blob = "bytea" if is_postgres(url) else "blob"
    run(
        database,
        f"create table people (id bigint primary key, a boolean, b numeric(20, 4), c double precision,"
        f" d text, e date, f time, g {moment(url)}, h {blob}, i smallint)",
        "insert into people values (9007199254740993, true, 12345678901.4567, 0.1, 'größe', '2026-01-31',"
        " '10:00:01', '2026-01-31 10:00:01.123', null, -3)",
        "insert into people (id) values (1)",
    )
    columns = {
        "ID": "BIGINT",
        "A": "BOOLEAN",
        "B": "DECIMAL(20, 4)",
        "C": "DOUBLE",
        "D": "VARCHAR(9)",
        "E": "DATE",
        "F": "TIME",
        "G": "TIMESTAMP",
        "H": "VARBINARY(9)",
        "I": "SMALLINT",
    }
    (empty, full), _ = rows(opened(url, columns))
    assert empty == (1, *[None] * 9)
    assert full[:2] == (9007199254740993, True)
    assert Decimal(str(full[2])) == Decimal("12345678901.4567")
    assert full[3:7] == (0.1, "größe", "2026-01-31", "10:00:01")
    assert datetime.fromisoformat(str(full[7])) == datetime(2026, 1, 31, 10, 0, 1, 123_000)
    assert full[8:] == (None, -3)


@pytest.mark.postgres
def test_values_that_python_or_json_lack_are_text(postgres_url: str) -> None:
    engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))
    run(
        engine,
        "create type mood as enum ('sad', 'ok')",
        "create table people (id integer primary key, a timestamptz, b timestamp, c numeric, d float8, e jsonb,"
        " f integer[], g uuid, h mood, i bytea, j date)",
        "insert into people values (1, '2026-01-31 10:00:00+02', 'infinity', 'NaN', 'infinity',"
        """ '{"a": 1.10000000000000000001}', '{1,null}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', '\\x00ff',"""
        " '0044-03-15 BC')",
    )
    engine.dispose()
    kinds = dict.fromkeys("EFGH", "VARCHAR(99)")
    columns = {
        "ID": "INTEGER",
        "A": "TIMESTAMP WITH TIME ZONE",
        "B": "TIMESTAMP",
        "C": "DECIMAL(9, 2)",
        "D": "DOUBLE",
    }
    (row,), _ = rows(opened(postgres_url, {**columns, **kinds, "I": "VARBINARY(9)", "J": "DATE"}))
    assert row == (
        1,
        "2026-01-31 08:00:00+00",
        "infinity",
        "NaN",
        "inf",
        '{"a": 1.10000000000000000001}',
        "[1,null]",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "ok",
        b"\x00\xff",
        "0044-03-15 BC",
    )


@pytest.mark.postgres
def test_arrays_are_lists(postgres_url: str) -> None:
    engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))
    run(
        engine,
        "create table people (id integer primary key, a integer[], b text[], c numeric(9,2)[], d bytea[], e jsonb)",
        """insert into people values (1, '{1,null}', '{"a b",NULL}', '{1.50}', array['\\x00ff'::bytea],"""
        """ '[1.5, "x"]'),"""
        " (2, '{}', null, null, null, '{}')",
    )
    engine.dispose()
    kinds = {
        "ID": "INTEGER",
        "A": "INTEGER ARRAY",
        "B": "VARCHAR(9) ARRAY",
        "C": "DECIMAL(9, 2) ARRAY",
        "D": "VARBINARY(9) ARRAY",
        "E": "VARCHAR(9) ARRAY",
    }
    found, _ = rows(opened(postgres_url, kinds))
    assert found == [
        (1, [1, None], ["a b", None], [Decimal("1.50")], ["AP8="], [Decimal("1.5"), "x"]),
        (2, [], None, None, None, "{}"),
    ]
    for declared in ("INTEGER", "VARBINARY ARRAY"):
        with (
            closing(opened(postgres_url, {"ID": "INTEGER", "A": declared})) as table,
            pytest.raises(MismatchError, match=f"declared is {declared}: declare A INTEGER ARRAY"),
        ):
            table.check()


@pytest.mark.parametrize("lookback", ["0", "60"])
def test_a_later_read_has_the_ties_of_the_last_value_and_those_within_the_lookback(
    url: str, database: sa.Engine, lookback: str
) -> None:
    run(
        database,
        f"create table people (id integer primary key, changed {moment(url)})",
        "insert into people values (1, '2026-01-31 09:00:00'), (2, '2026-01-31 09:59:30'),"
        " (3, '2026-01-31 10:00:00.5'), (4, '2026-01-31 10:00:00.5'), (5, null)",
    )
    options = {"changes_by": "CHANGED", "lookback": lookback}
    everything, reached = rows(opened(url, {"ID": "INTEGER"}, **options))
    assert len(everything) == 5
    run(
        database,
        "insert into people values (6, '2026-01-31 10:00:00.5'), (7, '2026-01-31 10:00:01'),"
        " (8, '2026-01-31 08:00:00')",
    )
    later, further = rows(opened(url, {"ID": "INTEGER"}, **options), reached)
    within = [(2,)] if lookback == "60" else []
    assert later == [*within, (3,), (4,), (5,), (6,), (7,)]
    assert str(further) > str(reached)


def test_a_number_orders_changes_too(url: str, database: sa.Engine) -> None:
    run(
        database,
        "create table people (id integer primary key, version bigint not null)",
        "insert into people values (1, 5), (2, 80), (3, 100)",
    )
    options = {"changes_by": "version", "lookback": "20"}
    assert rows(opened(url, {"ID": "INTEGER"}, **options))[1] == "100"
    assert rows(opened(url, {"ID": "INTEGER"}, **options), "100") == ([(2,), (3,)], "100")
    run(database, "delete from people")
    assert rows(opened(url, {"ID": "INTEGER"}, **options), "100") == ([], "100")


def test_a_read_sees_one_state_of_the_database(url: str, database: sa.Engine) -> None:
    if is_sqlite(url):
        run(database, "pragma journal_mode = wal")
    run(database, "create table people (id integer primary key, name varchar(9))")
    with database.begin() as connection:
        connection.execute(
            sa.text("insert into people values (:id, 'old')"), [{"id": number} for number in range(4_000)]
        )
    with closing(opened(url, {"ID": "INTEGER", "NAME": "VARCHAR(9)"})) as table, table.read(None) as read:
        groups = read.chunks()
        found = list(next(groups))
        run(database, "update people set name = 'new'", "delete from people where id = 3999")
        found += [row for group in groups for row in group]
    assert found == [(number, "old") for number in range(4_000)]


def test_a_view_is_read_like_a_table(url: str, database: sa.Engine) -> None:
    run(
        database,
        "create table accounts (id integer primary key, name varchar(9))",
        "insert into accounts values (1, 'ann')",
        "create view people as select id, upper(name) as name from accounts",
    )
    assert rows(opened(url, {"ID": "INTEGER", "NAME": "VARCHAR(9)"}))[0] == [(1, "ANN")]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"ID": "INTEGER"}, {"table_name": "peopel"}, ['table "peopel" does not exist', '"people"']),
        ({"ID": "INTEGER", "NAM": "INTEGER"}, {}, ['column "nam" is missing', 'Did you mean "name"?']),
        (
            {"ID": "BOOLEAN", "NAME": "INTEGER", "SINCE": "BIGINT"},
            {},
            ['column "name" is varchar(9), declared is INTEGER: declare NAME VARCHAR(9)', "SINCE TIMESTAMP"],
        ),
        ({"ID": "INTEGER"}, {"changes_by": "since_"}, ['"since_" of option "changes_by"', '"since"']),
        ({"ID": "INTEGER"}, {"changes_by": "image"}, ['column "image" of option "changes_by" is b']),
    ],
)
def test_what_does_not_fit_is_named_with_what_to_write(
    url: str, database: sa.Engine, columns: dict[str, str], options: dict[str, str], words: list[str]
) -> None:
    run(
        database,
        f"create table people (id numeric(9, 0) primary key, name varchar(9), since {moment(url)},"
        f" image {'bytea' if is_postgres(url) else 'blob'})",
    )
    with closing(opened(url, columns, **options)) as table:
        for attempt in (table.check, lambda: table.read(None).__enter__()):
            with pytest.raises((MismatchError, GoneError)) as caught:
                attempt()
            text = f"{caught.value.message} {caught.value.hint}"
            assert [word for word in words if word not in text] == []


def test_a_check_says_what_a_poll_costs(url: str, database: sa.Engine) -> None:
    run(database, f"create table people (id integer primary key, changed {moment(url)})")
    remarks: list[Any] = []
    for options in ({}, {"changes_by": "changed"}):
        with closing(opened(url, {"ID": "INTEGER"}, **options)) as table:
            remarks.append(table.check())
    run(database, "create index by_change on people (changed)")
    with closing(opened(url, {"ID": "INTEGER"}, changes_by="changed")) as table:
        remarks.append(table.check())
    assert remarks[0] == "each poll reads all rows"
    assert "no index begins with" in remarks[1]
    assert remarks[2] is None


def test_a_value_that_orders_nothing_is_refused(url: str, database: sa.Engine) -> None:
    kind = "timestamp" if is_postgres(url) else "varchar(20)"
    run(database, f"create table people (id integer primary key, changed {kind})")
    run(database, "insert into people values (1, 'infinity')")
    options = {"changes_by": "changed"}
    with pytest.raises(MismatchError, match=r"neither a time nor a number|changes_by.* is varchar"):
        rows(opened(url, {"ID": "INTEGER"}, **options), rows(opened(url, {"ID": "INTEGER"}, **options))[1])


@pytest.mark.postgres
def test_a_missing_right_says_what_to_grant(postgres_url: str) -> None:
    address = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address)
    role = f"reader_{address.database}"
    run(
        engine,
        "create table people (id integer primary key)",
        f"create role \"{role}\" login password 'x'",
    )
    reader = address.set(username=role, password="x").render_as_string(hide_password=False)
    with closing(opened(reader, {"ID": "INTEGER"})) as table:
        with pytest.raises(DeniedError) as caught:
            table.check()
        assert "GRANT SELECT" in str(caught.value.hint)
        run(engine, f'grant select on people to "{role}"')
        assert table.check() == "each poll reads all rows"
    engine.dispose()


def test_a_database_that_is_down_is_unavailable() -> None:
    table = opened("postgresql://x@127.0.0.1:1/x", {"ID": "INTEGER"})
    with closing(table), pytest.raises(UnavailableError):
        table.check()
