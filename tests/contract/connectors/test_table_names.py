"""Any name that SQL can say is the name of the table and of its columns, on SQLite and real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from rowtide.runtime.state.output import target_table
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Database, StagingDatabase, TableColumn, TargetTable
from rowtide_connectors.checkpoint_tables import CHECKPOINT_TABLES
from rowtide_connectors.errors import GoneError, MismatchError
from rowtide_connectors.rdbms.table import physical, unfolded
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

ORDERS = TargetTable("ORDERS", (TableColumn("N", "BIGINT"),), ("N",))


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param != "sqlite":
        return str(request.getfixturevalue(f"{request.param}_url"))
    return f"sqlite:///{tmp_path / 'sink.db'}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = find_sink("rdbms").open({"url": url})
    yield opened
    opened.close()


# Placeholders, quotes, dots, escapes, formats and words of either database, and letters of any kind.
characters = st.sampled_from("ab Z_$%\"'`.:?;(){}[]\\/-\n\té😀") | st.characters(
    exclude_categories=["Cs", "Cc"]
)
names = st.sampled_from(
    ["%s", "%(c0)s", "a%b", 'a"b', '"', "a.b", ":x", "?", "{0}", "user", "select", "table", "oid", "x" * 63]
) | st.text(characters, min_size=1, max_size=12)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def declared(table: str, key: str, value: str, options: str = "") -> TargetTable:
    """Return a foreign table as a pipeline file declares it."""
    plan = plan_pipeline(
        "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');"
        f"CREATE FOREIGN TABLE {quoted(table)} ({quoted(key)} VARCHAR(8) NOT NULL, {quoted(value)} BIGINT,"
        f" PRIMARY KEY ({quoted(key)})) SERVER d {options};"
    )
    return target_table(plan.foreign_tables[0])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(names, names, names, st.booleans())
@example('a"b', "%", "%%", False)
@example("100%", '"', '""', False)
@example("a.b", "a", "b", False)
def test_a_table_of_any_name_is_created_written_read_and_found_again(
    url: str, database: Database, table: str, key: str, value: str, by_option: bool
) -> None:
    assume(len({key.lower(), value.lower()}) == 2 and "\x00" not in table + key + value)
    assume(len(table.encode()) <= 63 and len(key.encode()) <= 63 and len(value.encode()) <= 63)
    if url.startswith("mariadb"):
        assume(all(ord(each) <= 0xFFFF for each in table + key + value))
        assume(not any(name.endswith(" ") for name in (table, key, value)))
    # PostgreSQL gives every table these columns.
    assume(not {key, value} & {"oid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
    if by_option:
        assume("." not in table)
        exact, text = table, table.replace("'", "''")
        target = declared("T", key, value, f"OPTIONS (table_name '{text}')")
    else:
        exact, target = unfolded(table), declared(table, key, value)
    assume(exact.lower() not in CHECKPOINT_TABLES)
    key, value = (column.name for column in target.columns)
    database.prepare([target])
    with database.begin() as transaction:
        transaction.upsert(target, {key: ["kept", "gone"], value: [1, 2]})
    again = find_sink("rdbms").open({"url": url})
    try:
        again.prepare([target])
        assert again.missing([target]) == []
        with again.begin() as transaction:
            transaction.upsert(target, {key: ["kept"], value: [3]})
            transaction.delete(target, {key: ["gone"]})
            assert list(transaction.rows(target)) == [("kept", 3)]
            assert exact in sa.inspect(sql_connection(transaction)).get_table_names()
        if isinstance(again, StagingDatabase) and again.stage(target, "public.stage_1") is not None:
            stage = again.stage(target, "public.stage_1")
            assert stage is not None
            stage.create()
            stage.insert("one", {key: ["kept", "new"], value: [4, 5]})
            with again.begin() as transaction:
                stage.move(transaction, ["one"])
                assert sorted(transaction.rows(target)) == [("kept", 4), ("new", 5)]
        with again.begin() as transaction:
            quote = sql_connection(transaction).dialect.identifier_preparer.quote_identifier
            sql_connection(transaction).exec_driver_sql(f"drop table {quote(exact)}")
    finally:
        again.close()


@given(st.lists(names, min_size=1, max_size=2))
def test_the_parts_of_a_name_are_those_that_sql_names(parts: list[str]) -> None:
    plan = plan_pipeline(
        "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');"
        + (f"CREATE SCHEMA {quoted(parts[0])};" if len(parts) == 2 else "")
        + f"CREATE FOREIGN TABLE {'.'.join(map(quoted, parts))} (N BIGINT) SERVER d;"
    )
    found = physical(target_table(plan.foreign_tables[0]))
    assert [found.schema, found.name][-len(parts) :] == [unfolded(part) for part in parts]


def test_a_schema_that_does_not_exist_is_refused_by_check_and_by_run(database: Database) -> None:
    target = TargetTable("T", ORDERS.columns, (), {"table_name": "nosuch.named"})
    for refused in (database.missing, database.prepare):
        with pytest.raises(GoneError, match='schema "nosuch" does not exist') as caught:
            refused([target])
        assert caught.value.hint is not None


@pytest.mark.postgres
def test_a_name_that_postgresql_would_cut_is_refused(postgres_url: str) -> None:
    database = find_sink("rdbms").open({"url": postgres_url})
    with pytest.raises(MismatchError, match="longer than 63 bytes"):
        database.prepare([TargetTable("T" * 64, ORDERS.columns, ())])
    database.close()


@pytest.mark.mariadb
@pytest.mark.parametrize(
    ("name", "why"), [("T" * 65, "longer than 64 characters"), ("x ", "ends with a space"), ("😀", "beyond")]
)
def test_a_name_that_mysql_does_not_take_is_refused(mariadb_url: str, name: str, why: str) -> None:
    database = find_sink("rdbms").open({"url": mariadb_url})
    for target in (
        TargetTable("T", ORDERS.columns, (), {"table_name": name}),
        TargetTable("T", (TableColumn(name, "BIGINT"),), ()),
    ):
        with pytest.raises(MismatchError, match=why) as caught:
            database.prepare([target])
        assert caught.value.hint is not None
    database.close()


def test_processes_that_start_at_once_create_each_table_once(url: str) -> None:
    tables = [TargetTable(f"T{number}", ORDERS.columns, ("N",)) for number in range(4)]

    def start(_: int) -> None:
        database = find_sink("rdbms").open({"url": url})
        try:
            database.prepare(tables)
        finally:
            database.close()

    for _ in range(3):
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(start, range(6)))
        database = find_sink("rdbms").open({"url": url})
        assert database.missing(tables) == []
        with database.begin() as transaction:
            for number in range(4):
                sql_connection(transaction).exec_driver_sql(f"drop table t{number}")
        database.close()
