"""A table that can never be written is refused at the start, with the reason."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest
import sqlalchemy as sa

from real.postgres import PostgresServer
from rowtide_connectors.api import TableColumn, TargetTable
from rowtide_connectors.errors import ConnectorError, DeniedError, MismatchError
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

BASE = "create table base (id integer not null, x varchar(8))"
SUM = "select x, count(*) as id from base group by x"
UPSERT, APPEND = ("ID",), ()

CASES = [
    ("postgres", UPSERT, "is DEFERRABLE", ["create table o (id bigint primary key deferrable, x text)"]),
    (
        "postgres",
        UPSERT,
        "is DEFERRABLE",
        ["create table o (id bigint unique deferrable initially deferred, x text)"],
    ),
    ("postgres", APPEND, "view that cannot be written", [BASE, f"create view o as {SUM}"]),
    ("postgres", APPEND, "materialized view", [BASE, f"create materialized view o as {SUM}"]),
    ("postgres", APPEND, "not a table", ["create sequence o"]),
    (
        "postgres",
        APPEND,
        'column "x" is generated',
        ["create table o (id bigint, x text generated always as (id::text) stored)"],
    ),
    (
        "postgres",
        APPEND,
        'column "id" is generated',
        ["create table o (id bigint generated always as identity, x text)"],
    ),
    (
        "postgres",
        UPSERT,
        "has a rule",
        [
            "create table o (id bigint primary key, x text)",
            "create rule r as on insert to o do also notify n",
        ],
    ),
    (
        "postgres",
        UPSERT,
        "no replica identity",
        ["create table o (id bigint unique not null, x text)", "create publication p for table o"],
    ),
    ("mariadb", APPEND, "view that cannot be written", [BASE, f"create view o as {SUM}"]),
    ("mariadb", APPEND, 'column "x" is generated', ["create table o (id bigint, x varchar(8) as ('a'))"]),
    ("sqlite", APPEND, "view that cannot be written", [BASE, f"create view o as {SUM}"]),
    ("sqlite", APPEND, 'column "x" is generated', ["create table o (id bigint, x text as ('a'))"]),
]


def refused(url: str, target: TargetTable) -> ConnectorError:
    with closing(find_sink("rdbms").open({"url": url})) as database, pytest.raises(ConnectorError) as met:
        database.prepare([target])
    return met.value


def execute(url: str, *statements: str) -> None:
    with closing(find_sink("rdbms").open({"url": url})) as database, database.begin() as transaction:
        for statement in statements:
            sql_connection(transaction).exec_driver_sql(statement)


def table(key: tuple[str, ...], columns: int = 0) -> TargetTable:
    more = [TableColumn(f"C{number}", "BIGINT") for number in range(columns)]
    return TargetTable("o", (TableColumn("ID", "BIGINT"), TableColumn("X", "VARCHAR(8)"), *more), key)


@pytest.mark.parametrize(
    ("database", "key", "why", "setup"),
    [
        pytest.param(*case, marks=() if case[0] == "sqlite" else getattr(pytest.mark, case[0]))
        for case in CASES
    ],
)
def test_a_table_that_can_never_be_written_is_refused_with_the_reason(
    database: str, key: tuple[str, ...], why: str, setup: list[str], request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue("tmp_path")
    url = f"sqlite:///{folder}/o.db" if database == "sqlite" else request.getfixturevalue(f"{database}_url")
    execute(url, *setup)
    error = refused(url, table(key))
    assert isinstance(error, MismatchError)
    assert why in error.message
    assert error.hint is not None


@pytest.mark.postgres
def test_what_can_be_written_is_not_refused(postgres_url: str) -> None:
    execute(
        postgres_url,
        "create table base (id bigint primary key, x text)",
        "create view o as select * from base",
        "create table with_rule (id bigint, x text)",
        "create rule r as on insert to with_rule do also notify n",
        "create table published (id bigint unique not null, x text)",
        "alter table published replica identity full",
        "create publication p for table published",
    )
    with closing(find_sink("rdbms").open({"url": postgres_url})) as database:
        for name, key in (("o", APPEND), ("with_rule", APPEND), ("published", UPSERT)):
            target = TargetTable(name, table(key).columns, key)
            database.prepare([target])
            with database.begin() as transaction:
                for value in ("a", "b"):
                    write = transaction.upsert if key else transaction.append
                    write(target, {"ID": [1], "X": [value]})
                    if not key:
                        break


@pytest.mark.postgres
def test_names_and_numbers_of_columns_beyond_the_limits_are_refused(postgres_url: str) -> None:
    long = TargetTable("o", (TableColumn("X" * 64, "BIGINT"),), ())
    assert "is longer than 63 bytes" in refused(postgres_url, long).message
    assert "has 1601 columns" in refused(postgres_url, table((), 1_599)).message


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("grants", "key", "lacks"),
    [
        ("insert (id), select, update", UPSERT, 'INSERT of column "x", USAGE of'),
        ("insert, select, update (id)", UPSERT, "UPDATE, USAGE of"),
        ("insert, select, update", UPSERT, 'USAGE of sequence "o_n_seq" is not granted'),
        ("insert", APPEND, 'USAGE of sequence "o_n_seq" is not granted'),
    ],
)
def test_rights_on_some_columns_and_on_sequences_are_named(
    postgres_server: PostgresServer, postgres_url: str, grants: str, key: tuple[str, ...], lacks: str
) -> None:
    role = f"role_{uuid.uuid4().hex[:8]}"
    execute(
        postgres_url,
        "create table o (id bigint unique, x text, n serial)",
        f"create role {role} login",
        f"grant {grants} on o to {role}",
    )
    url = sa.make_url(postgres_url).set(username=role).render_as_string(hide_password=False)
    error = refused(url, table(key))
    assert isinstance(error, DeniedError)
    assert lacks in error.message
    execute(postgres_url, f"drop owned by {role}", f"drop role {role}")
