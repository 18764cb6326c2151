"""What MySQL and MariaDB do otherwise than PostgreSQL, on a real MariaDB server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from real.mariadb import MariaDbServer
from rowtide.checkpoint.database import DatabaseLedger
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.errors import (
    ConnectorError,
    DeniedError,
    MismatchError,
    OptionError,
    RefusedRowsError,
    UnavailableError,
)
from rowtide_connectors.rdbms import CONNECTOR
from rowtide_connectors.rdbms import literals as literals_module
from rowtide_connectors.rdbms.connector import refuse_unknown_kind
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink
from support.database import refused_start

pytestmark = pytest.mark.mariadb

ORDERS = TargetTable("ORDERS", (TableColumn("N", "VARCHAR"), TableColumn("M", "VARCHAR")), ("N",))


@pytest.fixture
def database(mariadb_url: str) -> Iterator[Database]:
    with closing(find_sink("rdbms").open({"url": mariadb_url})) as opened:
        yield opened


def execute(database: Database, *statements: str) -> None:
    with database.begin() as transaction:
        for statement in statements:
            sql_connection(transaction).exec_driver_sql(statement)


def tables(database: Database) -> list[str]:
    with database.begin() as transaction:
        return sa.inspect(sql_connection(transaction)).get_table_names()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "REAL": st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "DECIMAL(38, 10)": st.decimals(-(10**20), 10**20, places=10),
    "VARCHAR": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "VARBINARY": st.binary(max_size=20),
    "UUID": st.uuids().map(str),
    "JSON": st.sampled_from(('{"a": [1.50, null]}', "[]", "1")),
    "DATE": st.integers(-719_162, 2_932_896),
    "TIME": st.integers(0, 86_399_999),
    "TIMESTAMP": st.integers(-62_135_596_800_000, 253_402_300_799_999),
    "INTERVAL DAY TO SECOND": st.integers(-(2**40), 2**40),
}


@pytest.mark.parametrize("sql_type", VALUES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_value_comes_back_unchanged(database: Database, sql_type: str, data: st.DataObject) -> None:
    target = TargetTable("VALUES_OF", (TableColumn("N", "INTEGER"), TableColumn("V", sql_type)), ())
    database.prepare([target])
    execute(database, "delete from values_of")
    values = data.draw(st.lists(st.none() | VALUES[sql_type], max_size=8))
    with database.begin() as transaction:
        transaction.append(target, {"N": list(range(len(values))), "V": values})
    with database.begin() as transaction:
        assert sorted(transaction.rows(target)) == list(enumerate(values))


def test_keys_that_differ_in_case_or_spaces_are_different_keys(database: Database) -> None:
    database.prepare([ORDERS])
    keys = ["a", "A", "a ", "ä", "ss", "ß", ""]
    with database.begin() as transaction:
        transaction.upsert(ORDERS, {"N": keys, "M": keys})
    with database.begin() as transaction:
        transaction.delete(ORDERS, {"N": ["A", "ss"]})
        assert sorted(transaction.rows(ORDERS)) == sorted(
            (key, key) for key in keys if key not in ("A", "ss")
        )


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin"])
def test_a_key_whose_collation_takes_different_texts_for_equal_is_refused(
    database: Database, collation: str
) -> None:
    execute(database, f"create table orders (n varchar(8) collate {collation} primary key, m longtext)")
    with pytest.raises(MismatchError, match=f"{collation}, in which .* keys need utf8mb4_nopad_bin"):
        database.prepare([ORDERS])


def test_a_key_that_is_longer_than_its_column_is_a_refused_row(database: Database) -> None:
    database.prepare([ORDERS])
    with database.sift() as transaction:
        with pytest.raises(RefusedRowsError, match="longer than 768") as caught:
            transaction.upsert(ORDERS, {"N": ["x" * 768, "x" * 769], "M": ["", ""]})
        assert list(caught.value.rows) == [1]


def test_of_tables_that_are_created_together_all_are_created_or_none(database: Database) -> None:
    wide = TargetTable("WIDE", tuple(TableColumn(f"C{n}", "VARCHAR(255)") for n in range(80)), ())
    with pytest.raises(MismatchError, match=r"(?i)row size too large"):
        database.prepare([ORDERS, wide])
    assert tables(database) == []


def test_a_row_replaces_only_the_row_of_its_own_key(database: Database) -> None:
    """ON DUPLICATE KEY UPDATE would change the row that has the other unique value."""
    execute(
        database,
        "create table orders (n varchar(8) collate utf8mb4_nopad_bin primary key,"
        " m varchar(8) collate utf8mb4_nopad_bin unique)",
    )
    database.prepare([ORDERS])
    with database.begin() as transaction:
        transaction.upsert(ORDERS, {"N": ["one", "two"], "M": ["a", "b"]})
    with database.sift() as transaction:
        with pytest.raises(RefusedRowsError, match="Duplicate entry") as caught:
            transaction.upsert(ORDERS, {"N": ["three", "two"], "M": ["a", "c"]})
        assert list(caught.value.rows) == [0]
        assert sorted(transaction.rows(ORDERS)) == [("one", "a"), ("two", "c")]


def test_rows_larger_than_a_statement_are_written_and_larger_than_a_packet_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(literals_module, "STATEMENT_CHARACTERS", 100)
    database.prepare([ORDERS])
    texts = ["x" * 10, "y" * 5_000_000, "z" * 17_000_000, "w"]
    with database.sift() as transaction:
        with pytest.raises(RefusedRowsError, match="max_allowed_packet") as caught:
            transaction.upsert(ORDERS, {"N": ["1", "2", "3", "4"], "M": texts})
        assert list(caught.value.rows) == [2]
        lengths = [len(str(row[1])) for row in sorted(transaction.rows(ORDERS), key=str)]
        assert lengths == [10, 5_000_000, 1]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_a_refused_row(database: Database, value: float) -> None:
    target = TargetTable("NUMBERS", (TableColumn("X", "DOUBLE"),), ())
    database.prepare([target])
    for write in ("check", "append"):
        with database.sift() as transaction:
            with pytest.raises(RefusedRowsError, match="finite") as caught:
                getattr(transaction, write)(target, {"X": [1.0, value]})
            assert list(caught.value.rows) == [1]


def test_a_lock_that_another_transaction_holds_is_waited_for_and_then_unavailable(mariadb_url: str) -> None:
    with (
        closing(find_sink("rdbms").open({"url": mariadb_url})) as holding,
        closing(find_sink("rdbms").open({"url": mariadb_url, "lock_timeout_s": "1"})) as waiting,
    ):
        holding.prepare([ORDERS])
        with holding.begin() as transaction:
            transaction.upsert(ORDERS, {"N": ["a"], "M": ["held"]})
            with pytest.raises(UnavailableError, match="Lock wait timeout"), waiting.begin() as other:
                other.upsert(ORDERS, {"N": ["a"], "M": ["never"]})
        with waiting.begin() as other:
            assert list(other.rows(ORDERS)) == [("a", "held")]


def test_a_creation_of_the_checkpoint_that_was_interrupted_is_finished(mariadb_url: str) -> None:
    """Every statement of a migration commits by itself: a process may die after any of them."""
    finished, after = False, 0
    while not finished:
        with closing(find_sink("rdbms").open({"url": mariadb_url})) as database:
            statements = 0

            def die(_c: object, _cursor: object, text: str, *_: object, limit: int = after) -> None:
                nonlocal statements
                if text.lstrip().upper().startswith(("CREATE", "ALTER", "INSERT INTO ROWTIDE_V", "UPDATE")):
                    statements += 1
                    if statements > limit:
                        raise ZeroDivisionError

            with database.begin() as transaction:
                engine = sql_connection(transaction).engine
            sa.event.listen(engine, "before_cursor_execute", die)
            try:
                record = DatabaseLedger(database, "prices").claim("digest", "a")
            except ZeroDivisionError:
                after += 1 if statements <= 1 else 3
                continue
            finally:
                sa.event.remove(engine, "before_cursor_execute", die)
            assert record.epoch >= 1
            finished = True
    assert after > 10


@pytest.fixture
def user(mariadb_server: MariaDbServer, mariadb_url: str) -> Iterator[sa.URL]:
    """The address of an empty database, for a user that may do nothing."""
    name = f"u_{uuid.uuid4().hex[:8]}"
    mariadb_server.execute(f"create user {name}@'%' identified by 'right'")
    yield sa.make_url(mariadb_url).set(username=name, password="right")
    mariadb_server.execute(f"drop user {name}@'%'")


def opened(url: sa.URL) -> Database:
    return find_sink("rdbms").open({"url": url.render_as_string(hide_password=False)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong"}, "username and password"),
        ({"username": "nosuch"}, "username and password"),
        ({}, "CREATE DATABASE"),
    ],
)
def test_who_is_refused_is_told_what_to_change(user: sa.URL, change: dict[str, str], said: str) -> None:
    with pytest.raises(DeniedError) as caught:
        opened(user.set(**change)).prepare([ORDERS])  # type: ignore[arg-type]
    assert said in str(caught.value.hint)


def test_an_unknown_database_is_refused_with_what_to_do(mariadb_url: str) -> None:
    with pytest.raises(DeniedError, match="nosuch") as caught:
        opened(sa.make_url(mariadb_url).set(database="nosuch")).prepare([ORDERS])
    assert "CREATE DATABASE" in str(caught.value.hint)


def test_each_right_that_is_missing_is_named_before_anything_is_written(
    mariadb_server: MariaDbServer, mariadb_url: str, user: sa.URL, database: Database
) -> None:
    def grant(rights: str) -> None:
        mariadb_server.execute(f"grant {rights} on {user.database}.* to {user.username}@'%'")

    grant("select")
    with pytest.raises(DeniedError, match="CREATE command denied"):
        opened(user).prepare([ORDERS])
    database.prepare([ORDERS])
    for right in ("INSERT", "UPDATE"):
        with pytest.raises(DeniedError, match=f"{right} command denied"):
            opened(user).prepare([ORDERS])
        grant(right)
    opened(user).prepare([ORDERS])


def test_a_server_that_takes_small_statements_only_is_refused(
    mariadb_server: MariaDbServer, mariadb_url: str
) -> None:
    mariadb_server.execute("set global max_allowed_packet = 1048576")
    try:
        with pytest.raises(MismatchError, match="takes statements of 1048576 bytes") as caught:
            CONNECTOR.check({"url": mariadb_url})
        assert "max_allowed_packet" in str(caught.value.hint)
    finally:
        mariadb_server.execute("set global max_allowed_packet = 16777216")


@pytest.mark.parametrize("kind", ["mysql", "mariadb", "mysql+pymysql", "mariadb+mariadbconnector"])
def test_every_spelling_of_the_address_is_taken(mariadb_url: str, kind: str) -> None:
    url = mariadb_url.replace("mariadb://", f"{kind}://")
    assert "mariadb 10." in CONNECTOR.check({"url": url})


def test_an_address_without_a_database_is_refused(mariadb_server: MariaDbServer) -> None:
    with pytest.raises(OptionError, match="names no database"):
        CONNECTOR.check({"url": mariadb_server.url("")})


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Callable[[str], None] = lambda _: None  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", nothing)
    with pytest.raises(OptionError, match="PyMySQL") as caught:
        refuse_unknown_kind("mariadb://host/name")
    assert 'pip install "rowtide[mysql]"' in str(caught.value.hint)


def test_decimals_of_any_form_keep_their_digits(database: Database) -> None:
    target = TargetTable("DECIMALS", (TableColumn("X", "DECIMAL(38, 0)"),), ())
    database.prepare([target])
    with database.begin() as transaction:
        transaction.append(target, {"X": [Decimal("1E+30"), Decimal(10**38 - 1)]})
    with database.begin() as transaction:
        assert sorted(row[0] for row in transaction.rows(target)) == [10**30, 10**38 - 1]  # type: ignore[type-var]


def test_a_mistake_in_a_statement_is_not_an_outage(database: Database) -> None:
    with pytest.raises(ConnectorError, match="does not take the statement"):
        execute(database, "selec 1")


@pytest.mark.parametrize(
    ("change", "said"), [({"username": "nosuch"}, "CREATE USER"), ({"database": "nosuch"}, "CREATE DATABASE")]
)
def test_a_start_that_the_server_refuses_ends_with_what_to_change(
    mariadb_url: str, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    url = sa.make_url(mariadb_url).set(**change).render_as_string(hide_password=False)
    output = refused_start(url, tmp_path)
    assert "nosuch" in output
    assert f"({said}" in output
