"""A column of any type takes a value unchanged or refuses its row, on real PostgreSQL and MariaDB."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from real.mariadb import MariaDbServer
from real.postgres import PostgresServer
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.errors import MismatchError, RefusedRowsError
from rowtide_connectors.rdbms.sql_type import TYPES
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | texts
    | st.decimals(-9, 9, places=2).map(float),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
).map(lambda value: json.dumps(value, ensure_ascii=False))
uuids = st.uuids().map(str) | st.uuids().map(lambda value: str(value).upper())

VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INTEGER": st.integers(-(2**31), 2**31 - 1) | st.integers(-200, 200),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-70_000, 70_000),
    "REAL": st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "DECIMAL(12, 4)": st.decimals(-(10**8) + 1, 10**8 - 1, places=4)
    | st.integers(-300, 300).map(lambda value: Decimal(value).quantize(Decimal("0.0001"))),
    "CHAR(4)": st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=4).map(
        lambda value: value.ljust(4)
    ),
    "VARCHAR": texts | uuids | documents | st.text("x ", min_size=250, max_size=260),
    "BINARY(3)": st.binary(min_size=3, max_size=3),
    "VARBINARY": st.binary(max_size=4) | st.binary(min_size=254, max_size=257),
    "UUID": st.uuids().map(str),
    "JSON": documents,
    "DATE": st.integers(-719_162, 2_932_896),
    "TIME": st.integers(0, 86_399_999),
    "TIMESTAMP": st.integers(-62_135_596_800_000, 253_402_300_799_999) | st.integers(-(10**12), 3 * 10**12),
    "TIMESTAMP WITH TIME ZONE": st.integers(-62_135_596_800_000, 253_402_300_799_999),
    "INTERVAL DAY TO SECOND": st.integers(-(2**40), 2**40) | st.integers(-100, 100),
    "INTERVAL YEAR TO MONTH": st.integers(-40_000, 40_000) | st.integers(-100, 100),
}

ARGUMENTS = {
    "postgresql": {
        "character": ["(4)", "(9)"],
        "character varying": ["", "(3)", "(255)"],
        "numeric": ["", "(5, 0)", "(8, 2)", "(30, 6)"],
    },
    "mysql": {
        "char": ["(4)", "(9)"],
        "varchar": ["(3)", "(255)"],
        "varbinary": ["(2)", "(255)"],
        "decimal": ["(5, 0)", "(8, 2)", "(30, 6)", "(8, 2) unsigned"],
        "datetime": ["(3)", "(6)"],
        "timestamp": ["(3) null"],
        "time": ["(3)", "(6)"],
        **{name: ["", " unsigned"] for name in ("smallint", "int", "bigint")},
        "tinyint": ["(1)", ""],
    },
}
"""Where a type has lengths, digits or signs: those to try."""


KINDS = [
    pytest.param("postgres_server", marks=pytest.mark.postgres),
    pytest.param("mariadb_server", marks=pytest.mark.mariadb),
]


def pairs(kind: str) -> list[tuple[str, str]]:
    """Return every SQL type with every type of an existing column that takes it."""
    return [
        (declared, name + arguments)
        for declared in VALUES
        for name in TYPES[kind][declared.split("(")[0]].taken
        for arguments in ARGUMENTS[kind].get(name, [""])
        # MariaDB has the type JSON under another name: LONGTEXT with a CHECK.
        if not (kind == "mysql" and name == "json")
        # What enums take is in test_refused_by_databases.py.
        if name != "enum"
        if not (name == "boolean" and kind == "mysql")
        # A CHAR that is too short for every UUID is refused at a start.
        if not (declared == "UUID" and name == "char")
    ]


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server: PostgresServer | MariaDbServer = request.getfixturevalue(request.param)
    with closing(find_sink("rdbms").open({"url": server.create_database()})) as opened:
        yield opened


def execute(database: Database, statement: str) -> None:
    with database.begin() as transaction:
        sql_connection(transaction).exec_driver_sql(statement)


@pytest.mark.parametrize("database", KINDS, indirect=True)
@settings(
    max_examples=5,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)
@given(data=st.data())
def test_a_value_is_stored_unchanged_or_its_row_is_refused(database: Database, data: st.DataObject) -> None:
    with database.begin() as transaction:
        kind = sql_connection(transaction).dialect.name
    tables = [
        (TargetTable(f"T{number}", (TableColumn("V", declared),), ()), declared, existing)
        for number, (declared, existing) in enumerate(pairs(kind))
    ]
    if database.missing([tables[0][0]]):
        for target, _, existing in tables:
            collation = " collate utf8mb4_bin" if kind == "mysql" and "text" in existing else ""
            execute(database, f"create table {target.name.lower()} (v {existing}{collation})")
        database.prepare([target for target, _, _ in tables])
    for target, declared, existing in data.draw(st.lists(st.sampled_from(tables), min_size=4, max_size=8)):
        values = data.draw(
            st.lists(st.none() | VALUES[declared], max_size=6), label=f"{declared}, {existing}"
        )
        refused: set[int] = set()
        with database.sift() as transaction:
            try:
                transaction.append(target, {"V": values})
            except RefusedRowsError as error:
                refused = set(error.rows)
            form = transaction.form_of(target)
            expected = [(value,) for index, value in enumerate(values) if index not in refused]
            assert answer(transaction.rows(target)) == answer(map(form, expected))
            # What is folded away is judged alike, or the table gets every row in order.
            if not transaction.judges_rows(target):
                found: set[int] = set()
                try:
                    transaction.check(target, {"V": values})
                except RefusedRowsError as error:
                    found = set(error.rows)
                assert found == refused
            if "json" not in existing:
                transaction.delete(target, {"V": values})
                if existing not in ("real", "float"):
                    assert [row for row in transaction.rows(target) if row != (None,)] == []
        unlimited = {"text", "longtext", "numeric", "bytea", "longblob", "double", "double precision"}
        assert not refused or existing not in unlimited


def answer(rows: Iterable[tuple[object, ...]]) -> Counter[tuple[str, object]]:
    return Counter((type(value).__name__, value) for (value,) in rows)


@pytest.mark.parametrize("database", KINDS, indirect=True)
@pytest.mark.parametrize(
    ("declared", "existing", "said"),
    [
        ("DOUBLE", "real", "DOUBLE fits double"),
        ("TIMESTAMP", "date", "TIMESTAMP fits"),
        ("VARCHAR", "integer", "VARCHAR fits"),
        ("DATE", "varchar(10)", "DATE fits date"),
        ("TIME", "time(0)", "TIME fits time"),
    ],
)
def test_a_column_that_would_change_values_is_refused_with_the_types_that_fit(
    database: Database, declared: str, existing: str, said: str
) -> None:
    target = TargetTable("PRICES", (TableColumn("PRICE", declared),), ())
    execute(database, f"create table prices (price {existing.replace('real', 'float(20)')})")
    for refused in (database.missing, database.prepare):
        with pytest.raises(MismatchError, match='table "prices" does not fit: column "price" is') as caught:
            refused([target])
        assert said in str(caught.value)
        assert "alter the table" in str(caught.value.hint)


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
def test_an_array_for_what_is_not_declared_as_one_is_refused(database: Database) -> None:
    execute(database, "create table prices (price text[])")
    with pytest.raises(MismatchError, match=r'"price" is text\[\], declared is varchar') as caught:
        database.prepare([TargetTable("PRICES", (TableColumn("PRICE", "VARCHAR"),), ())])
    assert "INTEGER ARRAY" in str(caught.value.hint)


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
@pytest.mark.parametrize(
    ("declared", "existing"),
    [("INTEGER ARRAY", "smallint[]"), ("VARCHAR ARRAY", "integer[]"), ("INTEGER ARRAY", "integer")],
)
def test_a_column_that_does_not_take_all_elements_is_refused(
    database: Database, declared: str, existing: str
) -> None:
    execute(database, f"create table prices (price {existing})")
    with pytest.raises(MismatchError, match="does not fit"):
        database.prepare([TargetTable("PRICES", (TableColumn("PRICE", declared),), ())])


ARRAYS: dict[str, tuple[str, str, str, str]] = {
    "integers": ("INTEGER ARRAY", "integer[]", "[1,null]", "{1,NULL}"),
    "wider": ("INTEGER ARRAY", "bigint[]", "[1,null]", "{1,NULL}"),
    "texts": ("VARCHAR(9) ARRAY", "text[]", r'["a b",null,"","{\"x\\"]', r'{"a b",NULL,"","{\"x\\"}'),
    "fixed texts": ("CHAR(3) ARRAY", "character(3)[]", '["abc"]', "{abc}"),
    "doubles": ("DOUBLE ARRAY", "double precision[]", '[1.0,"NaN","-Infinity"]', "{1,NaN,-Infinity}"),
    "reals": ("REAL ARRAY", "real[]", "[0.1]", "{0.1}"),
    "decimals": ("DECIMAL(5, 2) ARRAY", "numeric[]", "[1.50]", "{1.50}"),
    "bytes": ("VARBINARY ARRAY", "bytea[]", '["AP8=",null]', r'{"\\x00ff",NULL}'),
    "moments": (
        "TIMESTAMP ARRAY",
        "timestamp without time zone[]",
        '["2024-02-29T10:00:00.123Z"]',
        '{"2024-02-29 10:00:00.123"}',
    ),
    "instants": (
        "TIMESTAMP WITH TIME ZONE ARRAY",
        "timestamp with time zone[]",
        '["2024-02-29T10:00:00.123Z"]',
        '{"2024-02-29 10:00:00.123+00"}',
    ),
    "times": ("TIME ARRAY", "time without time zone[]", '["10:00:00.500"]', "{10:00:00.5}"),
    "empty": ("UUID ARRAY", "uuid[]", "[]", "{}"),
    "as jsonb": ("INTEGER ARRAY", "jsonb", "[1,null]", "[1, null]"),
    "as text": ("INTEGER ARRAY", "text", "[1,null]", "[1,null]"),
}


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
@pytest.mark.parametrize("case", ARRAYS)
def test_an_array_is_one_of_postgresql(database: Database, case: str) -> None:
    declared, existing, written, stored = ARRAYS[case]
    execute(database, f"create table prices (v {existing}, id integer primary key)")
    columns = (TableColumn("V", declared), TableColumn("ID", "INTEGER"))
    target = TargetTable("PRICES", columns, ("ID",))
    database.prepare([target])
    with database.begin() as transaction:
        transaction.upsert(target, {"V": [written, None], "ID": [1, 2]})
        found = sql_connection(transaction).exec_driver_sql("select v::text from prices order by id")
        assert [value for (value,) in found] == [stored, None]


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
@pytest.mark.parametrize("existing", ["text[]", "varchar(9)[]"])
def test_an_array_is_a_key_of_postgresql(database: Database, existing: str) -> None:
    execute(database, f"create table prices (v {existing} primary key, n integer)")
    columns = (TableColumn("V", "VARCHAR(9) ARRAY"), TableColumn("N", "INTEGER"))
    target = TargetTable("PRICES", columns, ("V",))
    database.prepare([target])
    for number in (1, 2):
        with database.begin() as transaction:
            transaction.upsert(target, {"V": ['["a",null]', "[]"], "N": [number, number]})
    with database.begin() as transaction:
        transaction.delete(target, {"V": ["[]"]})
        assert list(transaction.rows(target)) == [('["a",null]', 2)]


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
def test_an_array_with_the_character_nul_is_refused(database: Database) -> None:
    target = TargetTable("PRICES", (TableColumn("V", "VARCHAR ARRAY"),), ())
    database.prepare([target])
    fine = [r'["\\u0000"]', r'["a"]']
    with pytest.raises(RefusedRowsError) as caught, database.sift() as transaction:
        transaction.append(target, {"V": [fine[0], r'["\u0000"]', fine[1], r'["\\\u0000"]']})
    assert list(caught.value.rows) == [1, 3]


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
def test_a_key_of_jsonb_is_refused(database: Database) -> None:
    execute(database, "create table prices (price jsonb primary key)")
    with pytest.raises(MismatchError, match=r"key column .* is jsonb"):
        database.prepare([TargetTable("PRICES", (TableColumn("PRICE", "VARCHAR"),), ("PRICE",))])


@pytest.mark.postgres
@pytest.mark.parametrize("database", KINDS[:1], indirect=True)
def test_rows_are_replaced_and_deleted_by_keys_of_narrower_and_other_types(database: Database) -> None:
    execute(database, "create table prices (a uuid, b timestamptz, c smallint, d int, primary key (a, b, c))")
    columns = {"A": "VARCHAR", "B": "TIMESTAMP", "C": "BIGINT", "D": "BIGINT"}
    target = TargetTable("PRICES", tuple(TableColumn(*each) for each in columns.items()), ("A", "B", "C"))
    database.prepare([target])
    name = "0123abcd-0000-0000-0000-00000000000f"
    for number in (1, 2):
        with database.begin() as transaction:
            transaction.upsert(target, {"A": [name] * 2, "B": [1, -1], "C": [5, 6], "D": [number] * 2})
    with database.begin() as transaction:
        # A DELETE whose key does not fit the column deletes nothing and raises no error.
        transaction.delete(target, {"A": [name, name, "none"], "B": [1, 1, 1], "C": [5, 70_000, 5]})
        assert list(transaction.rows(target)) == [(name, -1, 6, 2)]
