"""What every database does, on SQLite (in memory and in a file) and on real PostgreSQL."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from real.mariadb import MariaDbServer
from real.postgres import PostgresServer
from rowtide.testing.processes import free_port
from rowtide_connectors.api import Database, TableColumn, TargetTable, Transaction
from rowtide_connectors.errors import (
    ConnectorError,
    GoneError,
    MismatchError,
    OptionError,
    RefusedRowsError,
    UnavailableError,
)
from rowtide_connectors.rdbms import CONNECTOR
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

EVERY_TYPE: dict[str, tuple[str, list[Any]]] = {
    "A_BOOLEAN": ("BOOLEAN", [True, False]),
    "A_TINYINT": ("TINYINT", [-128, 127]),
    "A_SMALLINT": ("SMALLINT", [-(2**15), 2**15 - 1]),
    "AN_INTEGER": ("INTEGER", [-(2**31), 2**31 - 1]),
    "A_BIGINT": ("BIGINT", [-(2**63), 2**63 - 1]),
    "A_REAL": ("REAL", [0.5, -1.25]),
    "A_DOUBLE": ("DOUBLE", [0.1, -1e300]),
    "A_DECIMAL": ("DECIMAL(10, 2)", [Decimal("-12345678.91"), Decimal("0.10")]),
    "A_WIDE_DECIMAL": (
        "DECIMAL(38, 6)",
        [Decimal("12345678901234567890123456789012.123456"), Decimal("-0.000001")],
    ),
    "A_CHAR": ("CHAR(3)", ["abc", "x  "]),
    "A_VARCHAR": ("VARCHAR(8)", ["größe", ""]),
    "A_TEXT": ("VARCHAR", ["'; drop table t; --", "%s ? :x"]),
    "A_BINARY": ("BINARY(2)", [b"\x00\xff", b"ab"]),
    "A_VARBINARY": ("VARBINARY", [b"", b"\x00" * 100]),
    "A_UUID": ("UUID", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]),
    "A_JSON": ("JSON", ['{"a":[1,null]}', '"text"']),
    "INTEGERS": ("INTEGER ARRAY", ["[1,null,-2147483648]", "[]", "[null]"]),
    "TEXTS": ("VARCHAR(8) ARRAY", [r'["größe","",null,"NULL","{a,b}","q\"\\ "]']),
    "TRUTHS": ("BOOLEAN ARRAY", ["[true,false,null]"]),
    "DECIMALS": ("DECIMAL(10, 2) ARRAY", ["[1.50,-0.01,null]"]),
    "UUIDS": ("UUID ARRAY", ['["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",null]']),
    "BYTES": ("VARBINARY ARRAY", ['["","AP8=",null,"' + "AP8A" * 40 + '"]']),
    "DATES": ("DATE ARRAY", ['["0001-01-01","9999-12-31",null]']),
    "A_DATE": ("DATE", [-719_162, 20_000]),
    "A_TIME": ("TIME", [0, 86_399_999]),
    "A_TIMESTAMP": ("TIMESTAMP", [-1, 253_402_300_799_999]),
    "AN_INSTANT": ("TIMESTAMP WITH TIME ZONE", [-1, 253_402_300_799_999]),
    "A_SPAN": ("INTERVAL DAY TO SECOND", [-90_061_001, 86_400_000]),
    "A_MONTH_SPAN": ("INTERVAL YEAR TO MONTH", [-13, 25]),
}


def covers(place: str) -> pytest.MarkDecorator:
    return pytest.mark.covers("rdbms", "sink", place)


@pytest.fixture(
    params=[
        pytest.param("sqlite-memory", marks=covers("SQLite")),
        pytest.param("sqlite-file", marks=covers("SQLite")),
        pytest.param("postgres", marks=[pytest.mark.postgres, covers("PostgreSQL, a real server")]),
        pytest.param("mariadb", marks=[pytest.mark.mariadb, covers("MariaDB, a real server")]),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("postgres_url"))
        case "mariadb":
            return str(request.getfixturevalue("mariadb_url"))
        case "sqlite-file":
            return f"sqlite:///{tmp_path / 'sink.db'}"
        case _:
            return "sqlite://"


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def server(request: pytest.FixtureRequest) -> PostgresServer | MariaDbServer:
    """A server whose connections are sessions with transactions of their own."""
    found: PostgresServer | MariaDbServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = find_sink("rdbms").open({"url": url})
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the handful of rows of a test go the ways that thousands go."""
    monkeypatch.setattr("rowtide_connectors.rdbms.postgres.TRY_PLAIN_ROWS", 2)


def table(
    columns: Mapping[str, str], key: Sequence[str] = (), name: str = "PRICES", **options: str
) -> TargetTable:
    declared = tuple(TableColumn(column, sql_type) for column, sql_type in columns.items())
    return TargetTable(name, declared, tuple(key), options)


PRICES = table({"TICKER": "VARCHAR(8)", "DAY": "DATE", "PRICE": "DECIMAL(10, 2)"}, key=["TICKER", "DAY"])
LOG = table({"LINE": "VARCHAR", "AT": "TIMESTAMP"}, name="LOG_LINES")


def rows_of(database: Database, target: TargetTable) -> Counter[tuple[object, ...]]:
    with database.begin() as transaction:
        return Counter(transaction.rows(target))


def kind_of(database: Database) -> str:
    with database.begin() as transaction:
        return sql_connection(transaction).dialect.name


def execute(database: Database, *statements: str) -> None:
    with database.begin() as transaction:
        for statement in statements:
            sql_connection(transaction).execute(sa.text(statement))


def columns_of(target: TargetTable, rows: Sequence[tuple[object, ...]]) -> dict[str, list[object]]:
    return {column.name: [row[index] for row in rows] for index, column in enumerate(target.columns)}


keys = st.tuples(st.sampled_from(["ORCL", "YHOO", "IBM"]), st.integers(-3, 3))
prices = st.none() | st.decimals(-100, 100, places=2)
changes = st.lists(
    st.tuples(st.just("upsert"), st.dictionaries(keys, prices, max_size=8))
    | st.tuples(st.just("delete"), st.dictionaries(keys, st.none(), max_size=4)),
    max_size=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes)
def test_a_table_with_a_key_is_a_dictionary(
    database: Database, changes: list[tuple[str, dict[Any, Any]]]
) -> None:
    database.prepare([PRICES])
    execute(database, "delete from prices")
    expected: dict[tuple[str, int], Decimal | None] = {}
    for kind, rows in changes:
        with database.begin() as transaction:
            if kind == "upsert":
                changed = [(*key, price) for key, price in rows.items()]
                transaction.upsert(PRICES, columns_of(PRICES, changed))
                expected |= rows
            else:
                transaction.delete(
                    PRICES, {"TICKER": [key[0] for key in rows], "DAY": [key[1] for key in rows]}
                )
                expected = {key: price for key, price in expected.items() if key not in rows}
    assert rows_of(database, PRICES) == Counter((*key, price) for key, price in expected.items())


@pytest.mark.parametrize("column", EVERY_TYPE)
def test_a_value_of_every_type_comes_back_unchanged(database: Database, column: str) -> None:
    sql_type, values = EVERY_TYPE[column]
    target = table({column: sql_type})
    database.prepare([target])
    with database.begin() as transaction:
        transaction.append(target, {column: [*values, None]})
    assert rows_of(database, target) == Counter((value,) for value in [*values, None])


def test_a_row_whose_key_ends_with_spaces_is_replaced_and_deleted(database: Database) -> None:
    columns = {"CODE": "CHAR(4)", "WORD": "VARCHAR(4)", "N": "INTEGER"}
    target, keys = table(columns, key=["CODE", "WORD"]), {"CODE": ["ab  ", "    "], "WORD": ["x ", ""]}
    database.prepare([target])
    for number in (1, 2):
        with database.begin() as transaction:
            transaction.upsert(target, {**keys, "N": [number] * 2})
    assert rows_of(database, target) == Counter([("ab  ", "x ", 2), ("    ", "", 2)])
    with database.begin() as transaction:
        transaction.delete(target, keys)
    assert rows_of(database, target) == Counter()


def test_a_table_is_made_that_fits_what_was_declared(database: Database) -> None:
    every = {column: sql_type for column, (sql_type, _) in EVERY_TYPE.items()}
    target = table(every, key=["AN_INTEGER", "A_VARCHAR"], name="EVERYTHING")
    database.prepare([target, PRICES])
    database.prepare([target])
    with database.begin() as transaction:
        transaction.upsert(
            target,
            {
                column: [None if column not in target.key else values[0]]
                for column, (_, values) in EVERY_TYPE.items()
            },
        )
    assert len(rows_of(database, target)) == 1


def test_what_is_missing_is_told_and_not_made(database: Database) -> None:
    database.prepare([LOG])
    assert database.missing([LOG, PRICES]) == ["PRICES"]
    assert database.missing([LOG, PRICES]) == ["PRICES"]
    with pytest.raises(MismatchError, match="log_lines"):
        database.missing([table({"LINE": "DOUBLE"}, name="LOG_LINES")])


def test_folded_names_are_small_letters_and_others_are_exact(database: Database) -> None:
    target = table({"ID": "INTEGER", "mixedCase": "INTEGER", "SELECT": "INTEGER"}, key=["ID"], name="ORDER")
    database.prepare([target])
    with database.begin() as transaction:
        transaction.upsert(target, {"ID": [1], "mixedCase": [2], "SELECT": [3]})
        transaction.delete(target, {"ID": [7]})
        found = (
            sql_connection(transaction)
            .execute(sa.text('select id, "mixedCase", "select" from "order"'))
            .all()
        )
    assert [tuple(row) for row in found] == [(1, 2, 3)]


def test_table_name_names_the_table_exactly(database: Database) -> None:
    target = table({"N": "INTEGER"}, table_name="Mixed_Case")
    database.prepare([target])
    with database.begin() as transaction:
        transaction.append(target, {"N": [1]})
        assert sql_connection(transaction).execute(sa.text('select n from "Mixed_Case"')).scalar_one() == 1


def test_a_transaction_commits_everything_or_nothing(database: Database) -> None:
    database.prepare([PRICES, LOG])
    with pytest.raises(ZeroDivisionError), database.begin() as transaction:
        transaction.upsert(PRICES, {"TICKER": ["IBM"], "DAY": [0], "PRICE": [Decimal(1)]})
        transaction.append(LOG, {"LINE": ["one"], "AT": [0]})
        _ = 1 / 0
    assert not rows_of(database, PRICES)
    assert not rows_of(database, LOG)


def test_a_table_without_a_key_keeps_equal_rows(database: Database) -> None:
    database.prepare([LOG])
    for _ in range(2):
        with database.begin() as transaction:
            transaction.append(LOG, {"LINE": ["same", "same"], "AT": [5, 5]})
    assert rows_of(database, LOG) == {("same", 5): 4}


def test_a_call_without_rows_does_nothing(database: Database) -> None:
    database.prepare([PRICES])
    with database.begin() as transaction:
        transaction.upsert(PRICES, {"TICKER": [], "DAY": [], "PRICE": []})
        transaction.delete(PRICES, {"TICKER": [], "DAY": []})
    assert not rows_of(database, PRICES)


def test_a_table_of_key_columns_alone_takes_a_key_again(database: Database) -> None:
    target = table({"K": "INTEGER"}, key=["K"])
    database.prepare([target])
    for _ in range(2):
        with database.begin() as transaction:
            transaction.upsert(target, {"K": [1, 2]})
    assert rows_of(database, target) == {(1,): 1, (2,): 1}


def test_more_rows_than_one_statement_takes_are_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowtide_connectors.rdbms.chunks.CHUNK_ROWS", 3)
    database.prepare([PRICES])
    rows = [("IBM", day, Decimal(day)) for day in range(10)]
    with database.begin() as transaction:
        transaction.upsert(PRICES, columns_of(PRICES, rows))
        transaction.delete(PRICES, {"TICKER": ["IBM"] * 7, "DAY": list(range(7))})
    assert rows_of(database, PRICES) == Counter(rows[7:])


@pytest.mark.parametrize(
    ("existing", "difference"),
    [
        ("ticker varchar(8) not null, day date not null, primary key (ticker, day)", '"price" is missing'),
        (
            "ticker varchar(8), day date, price double precision, primary key (ticker, day)",
            '"price" is double( precision)?, declared is',
        ),
        (
            "ticker varchar(8), day date, price decimal(10,2) not null, primary key (ticker, day)",
            '"price" is not null',
        ),
        (
            "ticker varchar(8), day date, price decimal(10,2), extra integer not null,"
            " primary key (ticker, day)",
            '"extra" is not declared, and needs a value',
        ),
        (
            "ticker varchar(8) not null, day date, price decimal(10,2), primary key (ticker)",
            'no primary key or unique constraint on "ticker", "day"',
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_the_difference(
    database: Database, existing: str, difference: str
) -> None:
    execute(database, f"create table prices ({existing})")
    with pytest.raises(MismatchError, match=difference):
        database.prepare([LOG, PRICES])
    with pytest.raises(GoneError):
        rows_of(database, LOG)


def test_a_table_with_more_columns_and_a_unique_constraint_fits(database: Database) -> None:
    others = "ticker varchar(8) not null, day date not null, unique (day, ticker)"
    existing = {
        "sqlite": f"id integer primary key, note varchar(10), price decimal(15, 2), {others}",
        "mysql": f"id integer auto_increment primary key, note varchar(10), price decimal(15, 2), {others}",
        "postgresql": "id integer generated always as identity, note varchar(10), price numeric, "
        + others.replace("varchar(8)", "text"),
    }
    execute(database, f"create table prices ({existing[kind_of(database)]})")
    database.prepare([PRICES])
    for price in (1, 2):
        with database.begin() as transaction:
            transaction.upsert(PRICES, {"TICKER": ["IBM"], "DAY": [0], "PRICE": [Decimal(price)]})
    assert rows_of(database, PRICES) == {("IBM", 0, Decimal(2)): 1}


def test_a_key_in_whose_collation_different_texts_are_equal_is_refused(database: Database) -> None:
    """Two rows with keys that differ would be one row in the table."""
    collations = {
        "sqlite": ("nocase", []),
        "mysql": ("utf8mb4_general_ci", []),
        "postgresql": (
            "no_case",
            # Only ICU has such collations, and not every build has ICU. What is looked up is the catalog.
            [
                "create collation no_case (provider = libc, locale = 'C')",
                "update pg_collation set collisdeterministic = false where collname = 'no_case'",
            ],
        ),
    }
    collation, before = collations[kind_of(database)]
    columns = f"ticker varchar(8) collate {collation}, day date, price decimal(10, 2)"
    execute(database, *before)
    execute(database, f"create table prices ({columns}, primary key (ticker, day))")
    with pytest.raises(MismatchError, match=r'key column "ticker" has the collation .*; keys need'):
        database.prepare([PRICES])


def test_a_row_that_a_constraint_refuses_is_named(database: Database) -> None:
    execute(
        database,
        "create table prices (ticker varchar(8), day date, price decimal(10, 2) check (price < 100),"
        " primary key (ticker, day))",
    )
    database.prepare([PRICES, LOG])
    rows = [("IBM", day, Decimal(200 if day in (13, 17) else day)) for day in range(20)]
    with pytest.raises(RefusedRowsError) as caught, database.begin() as transaction:
        transaction.append(LOG, {"LINE": ["goes as well"], "AT": [0]})
        transaction.upsert(PRICES, columns_of(PRICES, rows))
    assert caught.value.table == "prices"
    assert not rows_of(database, PRICES)
    assert not rows_of(database, LOG)
    with database.sift() as transaction:
        with pytest.raises(RefusedRowsError) as caught:
            transaction.upsert(PRICES, columns_of(PRICES, rows))
        # It goes on, and has the other rows.
        transaction.append(LOG, {"LINE": ["goes as well"], "AT": [0]})
        assert len(list(transaction.rows(PRICES))) == 18
    assert sorted(caught.value.rows) == [13, 17]
    assert not rows_of(database, PRICES)
    assert not rows_of(database, LOG)
    with database.begin() as transaction:
        transaction.upsert(PRICES, columns_of(PRICES, rows[:13] + rows[14:17] + rows[18:]))
    assert len(rows_of(database, PRICES)) == 18


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(refused=st.sets(st.integers(0, 255), max_size=12))
def test_refused_rows_are_found_in_statements_in_proportion_to_their_number(
    database: Database, refused: set[int]
) -> None:
    execute(
        database,
        "drop table if exists prices",
        "create table prices (ticker varchar(8), day date, price decimal(10, 2) check (price < 100),"
        " primary key (ticker, day))",
    )
    database.prepare([PRICES])
    statements = 0

    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    found: Mapping[int, str] = {}
    with database.sift() as transaction:
        engine = sql_connection(transaction).engine
        sa.event.listen(engine, "before_cursor_execute", count)
        try:
            transaction.upsert(
                PRICES,
                columns_of(
                    PRICES, [("IBM", day, Decimal(100 if day in refused else 1)) for day in range(256)]
                ),
            )
        except RefusedRowsError as error:
            found = error.rows
        finally:
            sa.event.remove(engine, "before_cursor_execute", count)
    assert set(found) == refused
    # Each of them is in a part at nine levels, with another part beside it. A part takes at most seven
    # statements: two savepoints, their ends, and a row with and without ON CONFLICT.
    assert statements <= 7 * (1 + 18 * len(refused))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(st.sampled_from("abcdef"), max_size=20))
def test_a_row_is_judged_after_the_rows_before_it(database: Database, labels: list[str]) -> None:
    execute(database, "drop table if exists log", "create table log (line varchar(8) unique, at bigint)")
    target = table({"LINE": "VARCHAR(8)", "AT": "BIGINT"}, name="log")
    database.prepare([target])
    found: Mapping[int, str] = {}
    with database.sift() as transaction:
        try:
            transaction.append(target, {"LINE": labels, "AT": list(range(len(labels)))})
        except RefusedRowsError as error:
            found = error.rows
        held = {row[0] for row in transaction.rows(target)}
    assert set(found) == {at for at, label in enumerate(labels) if label in labels[:at]}
    assert held == set(labels)


def test_a_value_that_the_database_cannot_hold_is_named(database: Database) -> None:
    target = table({"AT": "TIMESTAMP"})
    database.prepare([target])
    with pytest.raises(RefusedRowsError), database.begin() as transaction:
        transaction.append(target, {"AT": [0, 1, 2**62, 3]})
    with pytest.raises(RefusedRowsError) as caught, database.sift() as transaction:
        transaction.append(target, {"AT": [0, 1, 2**62, 3, 2**62]})
    assert sorted(caught.value.rows) == [2, 4]


def test_tables_that_are_gone_are_told(database: Database) -> None:
    database.prepare([PRICES])
    execute(database, "drop table prices")
    with pytest.raises(GoneError, match="prices"):
        rows_of(database, PRICES)


def test_a_check_tells_the_database_and_its_version(url: str) -> None:
    assert CONNECTOR.check({"url": url}).startswith('database "')


def test_an_unknown_type_is_refused(database: Database) -> None:
    with pytest.raises(OptionError, match="GEOMETRY"):
        database.prepare([table({"SHAPE": "GEOMETRY"})])


def test_a_lost_connection_is_unavailable_and_the_next_transaction_has_a_new_one(
    server: PostgresServer | MariaDbServer,
) -> None:
    url = server.create_database()
    database = find_sink("rdbms").open({"url": url})
    database.prepare([LOG])
    with pytest.raises(UnavailableError), database.begin() as transaction:
        transaction.append(LOG, {"LINE": ["lost"], "AT": [0]})
        server.drop_connections(url)
        transaction.append(LOG, {"LINE": ["lost as well"], "AT": [0]})
    with pytest.raises(UnavailableError), database.begin() as transaction:
        transaction.append(LOG, {"LINE": ["lost at the commit"], "AT": [0]})
        server.drop_connections(url)
    assert not rows_of(database, LOG)
    database.close()


def test_a_read_only_transaction_reads(database: Database) -> None:
    database.prepare([LOG])
    with database.begin() as transaction:
        transaction.append(LOG, {"LINE": ["first"], "AT": [0]})
    with database.begin_read_only() as transaction:
        assert list(transaction.rows(LOG)) == [("first", 0)]


def test_a_read_only_transaction_sees_one_moment_and_writes_nothing(
    server: PostgresServer | MariaDbServer,
) -> None:
    with closing(find_sink("rdbms").open({"url": server.create_database()})) as database:
        database.prepare([LOG])
        with database.begin_read_only() as reading:
            assert list(reading.rows(LOG)) == []
            with database.begin() as writing:
                writing.append(LOG, {"LINE": ["meanwhile"], "AT": [0]})
            assert list(reading.rows(LOG)) == []
        with pytest.raises(ConnectorError, match=r"(?i)read.only"), database.begin_read_only() as reading:
            reading.append(LOG, {"LINE": ["never"], "AT": [0]})
        assert rows_of(database, LOG) == {("meanwhile", 0): 1}


def test_a_transaction_of_another_connector_has_no_connection() -> None:
    with pytest.raises(OptionError, match="checkpoint cannot be stored in this database") as caught:
        sql_connection(cast(Transaction, object()))
    assert "RDBMS" in str(caught.value.hint)


def test_a_deadlock_is_unavailable_for_one_of_the_two(server: PostgresServer | MariaDbServer) -> None:
    database = find_sink("rdbms").open({"url": server.create_database()})
    database.prepare([PRICES])
    both: dict[str, list[Any]] = {"TICKER": ["A", "B"], "DAY": [0, 0], "PRICE": [Decimal(1), Decimal(1)]}
    with database.begin() as transaction:
        transaction.upsert(PRICES, both)
    started = threading.Barrier(2)

    def change(first: str, second: str) -> str:
        try:
            with database.begin() as transaction:
                transaction.upsert(PRICES, {"TICKER": [first], "DAY": [0], "PRICE": [Decimal(2)]})
                started.wait(30)
                transaction.upsert(PRICES, {"TICKER": [second], "DAY": [0], "PRICE": [Decimal(2)]})
        except UnavailableError as error:
            return error.message
        return "committed"

    with ThreadPoolExecutor(2) as pool:
        answer = sorted(pool.map(change, ("A", "B"), ("B", "A")))
    assert answer[0] == "committed"
    assert "deadlock" in answer[1].lower()
    database.close()


def test_a_database_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        CONNECTOR.check({"url": f"sqlite:///{tmp_path}/no/such/folder/sink.db"})
    with pytest.raises(UnavailableError):
        CONNECTOR.check({"url": f"postgresql://127.0.0.1:{free_port()}/none", "connect_timeout_s": "2"})


def test_a_password_never_shows() -> None:
    url = f"postgresql://user:hidden@127.0.0.1:{free_port()}/none"
    with pytest.raises(UnavailableError) as caught:
        CONNECTOR.check({"url": url, "password": "concealed"})
    assert "hidden" not in str(caught.value)
    assert "concealed" not in str(caught.value)


@pytest.mark.parametrize("url", ["mssql://host/name", "no address", "oracle://x"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match=r"not supported|not the address of a database"):
        find_sink("rdbms").open({"url": url})
