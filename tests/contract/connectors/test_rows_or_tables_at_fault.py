"""Whether a row or its table is at fault is found by trial, and does not depend on the cut into commits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from rowtide_connectors.api import TableColumn, TargetTable
from rowtide_connectors.rdbms.database import open_database
from support.database import execute, marks, opened, run_again, url_of


def postgres_trigger(table: str, when: str, body: str) -> tuple[str, ...]:
    row = "old" if "delete" in when else "new"
    return (
        f"create function f_{table}() returns trigger language plpgsql as $$ begin {body} return {row}; end $$",
        f"create trigger t {when} on {table} for each row execute function f_{table}()",
    )


POSTGRES_TRAPS = {
    "mistake": (
        "",
        postgres_trigger("mistake", "before insert", "if new.x = 'bad' then perform new.no; end if;"),
    ),
    "after": (
        ", PRIMARY KEY (x)",
        postgres_trigger("after", "after insert or update", "if new.x = 'bad' then perform new.no; end if;"),
    ),
    "router": (
        "",
        (
            "create table of_a (n int)",
            "create table of_c (n int)",
            *postgres_trigger(
                "router", "before insert", "execute 'insert into of_' || new.x || ' values (1)';"
            ),
        ),
    ),
    "formats": (
        ", PRIMARY KEY (id)",
        postgres_trigger(
            "formats", "before insert", "execute 'insert into of_' || coalesce(new.x, '') || ' values (1)';"
        ),
    ),
    "lacks": (
        "",
        postgres_trigger("lacks", "before insert", "if new.x = 'bad' then perform nothing(new.x); end if;"),
    ),
}
SIGNAL = "signal sqlstate '42000' set message_text = 'not allowed', mysql_errno = 1054"
MARIADB_TRAPS = {
    "signals": (
        "",
        (f"create trigger t1 before insert on signals for each row if new.x = 'bad' then {SIGNAL}; end if",),
    ),
    "calls": (
        ", PRIMARY KEY (x)",
        (
            "create trigger t2 after insert on calls for each row if new.x = 'bad' then call nothing(); end if",
        ),
    ),
}
"""By table: its declared key, and what makes it refuse 'bad' alone, with a code that a mistake in a table has, too."""
ROWS = ["bad", "a", "bad", "bad", "c", "a"]


def pipeline_of(traps: dict[str, tuple[str, tuple[str, ...]]]) -> str:
    sinks = (
        f"CREATE FOREIGN TABLE {name} (id BIGINT, x VARCHAR(8){key}) SERVER d;\n"
        f"CREATE PUMP p_{name} STARTED AS INSERT INTO {name} SELECT STREAM id, x FROM s;\n"
        for name, (key, _) in traps.items()
    )
    return f"""
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{broker}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{{url}}');
CREATE FOREIGN STREAM s (id BIGINT, x VARCHAR(8)) SERVER k OPTIONS (topic 't', format 'JSON');
{"".join(sinks)}"""


@pytest.mark.parametrize(
    ("database", "traps"),
    [
        pytest.param("postgres", POSTGRES_TRAPS, marks=pytest.mark.postgres),
        pytest.param("mariadb", MARIADB_TRAPS, marks=pytest.mark.mariadb),
    ],
)
def test_a_row_that_alone_meets_a_mistake_is_an_error_row_in_any_cut(
    database: str, traps: dict[str, tuple[str, tuple[str, ...]]], request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    for name, (key, setup) in traps.items():
        own_key = key.replace("PRIMARY KEY", "primary key")
        execute(url, [f"create table {name} (id bigint, x varchar(8){own_key})", *setup])

    messages = [(1_000 * number, {"id": number, "x": value}) for number, value in enumerate(ROWS)]
    for every in (1, 2, 100):
        with opened(pipeline_of(traps), url, {"t": messages}) as pipeline:
            errors = run_again(pipeline, every)
        bad = [number for number, value in enumerate(ROWS) if value == "bad"]
        for name, (key, _) in traps.items():
            met = [each.row.offset for each in errors if each.row.relation == name.upper()]
            assert met == bad, (name, every)
            kept = [(number, value) for number, value in enumerate(ROWS) if value != "bad"]
            if "(x)" in key:
                kept = sorted((number, value) for value, number in {v: n for n, v in kept}.items())
            assert execute(url, [f"select id, x from {name}"]) == kept
            execute(url, [f"delete from {name}"])


@dataclass(frozen=True)
class Table:
    """A table that may have a mistake; ``reason`` is what is found, None if nothing is."""

    name: str
    database: str
    reason: str | None
    setup: tuple[str, ...]
    key: tuple[str, ...] = ()
    type: str = "VARCHAR"
    is_nullable: bool = True
    may_delete: bool = True


PLAIN = "create table o (id bigint, x varchar(8))"
KEYED = "create table o (id bigint primary key, x varchar(8))"
STRICT = "create table o (id bigint not null, x varchar(8) not null)"
HELD = "insert into o values (1, 'a'), (2, 'c')"
MISTAKE, NO_FIELD = "perform new.no;", 'record "new" has no field "no"'
OWN_TABLE = "create trigger t after insert on o for each row update o set x = 'b'"
NO_COLUMN = "create trigger t after insert on o begin insert into log (y) values (new.x); end"
ID = ("ID",)
TABLES = (
    Table("none", "postgres", None, (PLAIN, HELD)),
    Table("none, with a key", "postgres", None, (KEYED, HELD), ID),
    Table(
        "BEFORE INSERT, empty",
        "postgres",
        NO_FIELD,
        (PLAIN, *postgres_trigger("o", "before insert", MISTAKE)),
    ),
    Table(
        "AFTER INSERT, empty, all columns NOT NULL",
        "postgres",
        NO_FIELD,
        (STRICT, *postgres_trigger("o", "after insert", MISTAKE)),
        is_nullable=False,
    ),
    Table(
        "AFTER INSERT", "postgres", NO_FIELD, (PLAIN, HELD, *postgres_trigger("o", "after insert", MISTAKE))
    ),
    *(
        Table(when, "postgres", NO_FIELD, (KEYED, HELD, *postgres_trigger("o", when, MISTAKE)), ID)
        for when in ("before insert", "after insert", "before update", "after update")
    ),
    Table(
        "AFTER DELETE",
        "postgres",
        'record "old" has no field "no"',
        (KEYED, HELD, *postgres_trigger("o", "after delete", "perform old.no;")),
        ID,
    ),
    Table(
        "rows that cannot be deleted",
        "postgres",
        NO_FIELD,
        (
            KEYED,
            HELD,
            "create table child (o bigint references o)",
            "insert into child values (1), (2)",
            *postgres_trigger("o", "after insert", MISTAKE),
        ),
        ID,
    ),
    Table(
        "no right to delete",
        "postgres",
        NO_FIELD,
        (KEYED, HELD, *postgres_trigger("o", "after insert", MISTAKE)),
        ID,
        may_delete=False,
    ),
    *(
        Table(
            f"of one value, {'with rows' if rows else 'empty'}",
            "postgres",
            None,
            (
                PLAIN,
                *rows,
                *postgres_trigger("o", "before insert", f"if new.x = 'bad' then {MISTAKE} end if;"),
            ),
        )
        for rows in ((), (HELD,))
    ),
    Table(
        "of all but one of the rows",
        "postgres",
        None,
        (PLAIN, HELD, *postgres_trigger("o", "before insert", f"if new.x <> 'c' then {MISTAKE} end if;")),
    ),
    Table(
        "another one for each value",
        "postgres",
        None,
        (
            PLAIN,
            *postgres_trigger(
                "o", "before insert", "execute 'insert into of_' || coalesce(new.x, '') || ' select 1';"
            ),
        ),
    ),
    Table("none", "mariadb", None, (KEYED, HELD), ID),
    Table(
        "a trigger that changes its own table, empty", "mariadb", "Can't update table 'o'", (PLAIN, OWN_TABLE)
    ),
    Table(
        "a trigger that changes its own table",
        "mariadb",
        "Can't update table 'o'",
        (KEYED, HELD, OWN_TABLE),
        ID,
    ),
    Table(
        "of one value",
        "mariadb",
        None,
        (PLAIN, f"create trigger t before insert on o for each row if new.x = 'bad' then {SIGNAL}; end if"),
    ),
    Table("none", "sqlite", None, (KEYED, HELD), ID),
    Table("a trigger, empty", "sqlite", "no column named y", (PLAIN, "create table log (x)", NO_COLUMN)),
    Table("a trigger", "sqlite", "no column named y", (KEYED, HELD, "create table log (x)", NO_COLUMN), ID),
    Table(
        "rows that cannot be read", "sqlite", None, ("create table o (id bigint, x date)", HELD), type="DATE"
    ),
)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{case.database}: {case.name}", marks=marks(case.database)) for case in TABLES],
)
def test_a_table_is_at_fault_if_it_refuses_any_row_alike(case: Table, request: pytest.FixtureRequest) -> None:
    owner = url = url_of(request, case.database)
    execute(owner, case.setup)
    if not case.may_delete:
        role = "do $$ begin create role rowtide_app login; exception when duplicate_object then null; end $$"
        execute(owner, (role, "grant select, insert, update on o to rowtide_app"))
        url = sa.make_url(url).set(username="rowtide_app").render_as_string(hide_password=False)
    before = execute(owner, ["select id, x from o"])
    columns = (
        TableColumn("ID", "BIGINT", case.is_nullable and not case.key),
        TableColumn("X", case.type, case.is_nullable),
    )
    database = open_database(url)
    try:
        # A transaction that commits: what was tried is undone before.
        with database.begin() as transaction:
            reasons = transaction.reasons_of_table(TargetTable("O", columns, case.key))
    finally:
        database.close()
    assert [case.reason in each for each in reasons if case.reason] == [True] * (case.reason is not None)
    assert len(reasons) == (case.reason is not None)
    assert execute(owner, ["select id, x from o"]) == before
