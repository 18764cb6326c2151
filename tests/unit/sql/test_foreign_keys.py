"""FOREIGN KEY in a foreign table: what it refers to, what refuses it, and what changes of the tables keep it."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.plan.outputs import referring_groups
from rowtide.plan.plan import ForeignKey
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.sql.pipeline import SqlSession

SERVER = "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');\n"
ORDERS = "CREATE FOREIGN TABLE orders (id INTEGER, shop VARCHAR(8), PRIMARY KEY (shop, id)) SERVER d;\n"
LINES = (
    "CREATE FOREIGN TABLE lines (id INTEGER, s VARCHAR(8), o INTEGER, PRIMARY KEY (id), {key}) SERVER d;\n"
)


def keys_of(sql: str) -> dict[str, tuple[ForeignKey, ...]]:
    return {table.name: table.foreign_keys for table in SqlSession().feed(SERVER + sql).foreign_tables}


@pytest.mark.parametrize(
    "key",
    [
        "FOREIGN KEY (s, o) REFERENCES orders",
        "FOREIGN KEY (o, s) REFERENCES orders (id, shop)",
        "CONSTRAINT of_order FOREIGN KEY (s, o) REFERENCES public.orders (shop, id)",
    ],
)
def test_a_foreign_key_refers_to_the_primary_key_column_by_column(key: str) -> None:
    assert keys_of(ORDERS + LINES.format(key=key))["LINES"] == (ForeignKey((1, 2), "ORDERS"),)


def test_a_table_may_refer_to_itself() -> None:
    tree = "CREATE FOREIGN TABLE tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree (id)) SERVER d;"
    assert keys_of(tree)["TREE"] == (ForeignKey((1,), "TREE"),)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("FOREIGN KEY (o) REFERENCES orders", r"has to refer to the PRIMARY KEY of \"ORDERS\""),
        ("FOREIGN KEY (o) REFERENCES orders (id)", r"has to refer to the PRIMARY KEY of \"ORDERS\""),
        ("FOREIGN KEY (o, s) REFERENCES orders", "is INTEGER, and"),
        ("FOREIGN KEY (s, n) REFERENCES orders", r"column \"N\" of \"LINES\" does not exist"),
        ("FOREIGN KEY (s, s) REFERENCES orders", "twice"),
        ("FOREIGN KEY (o) REFERENCES nothing", "does not exist"),
        ("FOREIGN KEY (o) REFERENCES facts", r"is a table, not a foreign table"),
        ("FOREIGN KEY (o) REFERENCES log", "has no PRIMARY KEY"),
        ("FOREIGN KEY (s, o) REFERENCES orders ON DELETE CASCADE", "ON DELETE is not supported"),
    ],
)
def test_a_foreign_key_that_does_not_fit_is_refused(key: str, why: str) -> None:
    others = "CREATE FOREIGN TABLE log (id INTEGER) SERVER d;\nCREATE TABLE facts (id INTEGER PRIMARY KEY);\n"
    with pytest.raises(StatementError, match=why):
        keys_of(ORDERS + others + LINES.format(key=key))


def test_tables_that_refer_to_each_other_are_refused() -> None:
    line = LINES.format(key="FOREIGN KEY (s, o) REFERENCES orders")
    back = (
        "CREATE OR REPLACE FOREIGN TABLE orders (id INTEGER, shop VARCHAR(8), l INTEGER REFERENCES lines,"
        " PRIMARY KEY (shop, id)) SERVER d;"
    )
    with pytest.raises(StatementError, match="refer to each other"):
        keys_of(ORDERS + line + back)


@pytest.mark.parametrize(
    "change",
    [
        "DROP FOREIGN TABLE orders;",
        "ALTER FOREIGN TABLE orders RENAME TO bills;",
        "CREATE OR REPLACE FOREIGN TABLE orders (id INTEGER PRIMARY KEY) SERVER d;",
        "ALTER FOREIGN TABLE lines DROP COLUMN s;",
    ],
)
def test_what_a_foreign_key_names_stays(change: str) -> None:
    with pytest.raises(StatementError):
        keys_of(ORDERS + LINES.format(key="FOREIGN KEY (s, o) REFERENCES orders") + change)


def test_a_foreign_key_follows_the_columns_and_the_name_of_its_table() -> None:
    tree = (
        "CREATE FOREIGN TABLE tree (a INTEGER, id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree) SERVER d;\n"
        "ALTER FOREIGN TABLE tree DROP COLUMN a;\nALTER FOREIGN TABLE tree RENAME TO forest;"
    )
    assert keys_of(tree) == {"FOREST": (ForeignKey((1,), "FOREST"),)}


def test_groups_have_tables_before_those_that_refer_to_them() -> None:
    sql = "CREATE FOREIGN TABLE other (id INTEGER PRIMARY KEY) SERVER d;\n" + ORDERS
    sql += LINES.format(key="FOREIGN KEY (s, o) REFERENCES orders")
    sql += (
        "CREATE FOREIGN TABLE notes (line INTEGER REFERENCES lines, id INTEGER REFERENCES other) SERVER d;\n"
    )
    tables = SqlSession().feed(SERVER + sql).foreign_tables
    every = [table.name for table in tables]
    (group,) = referring_groups(reversed(tables), every)
    assert group.index("ORDERS") < group.index("LINES") < group.index("NOTES") > group.index("OTHER")
    assert referring_groups(tables, ["ORDERS", "NOTES"]) == []
    assert referring_groups(tables, ["OTHER", "NOTES", "ORDERS"]) == [("OTHER", "NOTES")]


def test_a_foreign_key_decides_which_rows_are_refused_so_it_is_in_the_digest() -> None:
    plain, keyed = (
        plan_digests(SqlSession().feed(SERVER + ORDERS + LINES.format(key=key)))
        for key in ("CHECK (id > 0)", "FOREIGN KEY (s, o) REFERENCES orders")
    )
    assert {name for name in plain if plain[name] != keyed[name]} == {'foreign table "LINES"'}
