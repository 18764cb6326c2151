"""Whatever a database refuses: the row that fails alone is an error row, the others are stored, in any commits."""

from __future__ import annotations

import json
import random
import string
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from contract.connectors import test_statements_of_limited_size as of_limited_size
from real.postgres import PostgresServer
from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.errors import TransientError
from rowtide.runtime.service import Service
from rowtide_connectors.errors import ConnectorError, GoneError, UnavailableError
from rowtide_connectors.rdbms import refusals
from rowtide_connectors.rdbms.failures import RowDataError, write_errors
from rowtide_connectors.rdbms.refusals import KINDS, Consequence, RefusalKind
from support.database import Topics, committing, execute, marks, opened, run_again, url_of

PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM s (id BIGINT, x VARCHAR) SERVER k OPTIONS (topic 't', format 'JSON');
CREATE FOREIGN TABLE o (id BIGINT, x {type}{key}) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO o SELECT STREAM id, x FROM s;
"""
KEY = ", PRIMARY KEY (x)"


@dataclass(frozen=True)
class Case:
    """A table and the value that its database refuses."""

    name: str
    kind: RefusalKind
    database: str
    setup: tuple[str, ...]
    bad: str = "bad"
    key: str = ""
    type: str = "VARCHAR"
    as_role: bool = False


def trigger(body: str) -> tuple[str, ...]:
    """Statements of PostgreSQL: a table with a trigger in PL/pgSQL."""
    return (
        "create table o (id bigint, x text)",
        f"create function f() returns trigger language plpgsql as $$ begin {body} return new; end $$",
        "create trigger t before insert on o for each row execute function f()",
    )


LONG = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=9_000))
"""A key that stays too long for an index when it is compressed."""
CASES = (
    Case("a text", refusals.VALUE, "postgres", ("create table o (id bigint, x varchar(3))",), "long"),
    Case("a text", refusals.VALUE, "mariadb", ("create table o (id bigint, x varchar(3))",), "long"),
    Case(
        "an enum",
        refusals.VALUE,
        "postgres",
        ("create type \"My Mood\" as enum ('a', 'c')", 'create table o (id bigint, x "My Mood" primary key)'),
        key=KEY,
    ),
    Case(
        "a domain over a domain",
        refusals.CONSTRAINT,
        "postgres",
        (
            "create domain small as bigint check (value < 1000)",
            "create domain word as varchar(8)",
            "create domain good as word check (value <> 'bad')",
            "create table o (id small, x good primary key)",
        ),
        key=KEY,
    ),
    Case(
        "CHECK", refusals.CONSTRAINT, "postgres", ("create table o (id bigint, x text check (x <> 'bad'))",)
    ),
    Case("CHECK", refusals.CONSTRAINT, "mariadb", ("create table o (id bigint, x text check (x <> 'bad'))",)),
    Case("CHECK", refusals.CONSTRAINT, "sqlite", ("create table o (id bigint, x text check (x <> 'bad'))",)),
    Case(
        "deferred FOREIGN KEY",
        refusals.CONSTRAINT,
        "postgres",
        (
            "create table parent (x text primary key)",
            "insert into parent values ('a'), ('c')",
            "create table o (id bigint, x text references parent deferrable initially deferred)",
        ),
    ),
    Case(
        "deferred CONSTRAINT TRIGGER",
        refusals.TRIGGER,
        "postgres",
        (
            *trigger("if new.x = 'bad' then raise exception 'not balanced'; end if;")[:2],
            "create constraint trigger t after insert on o deferrable initially deferred"
            " for each row execute function f()",
        ),
    ),
    Case("a key beyond an index", refusals.TOO_LONG, "postgres", (), LONG, KEY),
    Case(
        "no partition",
        refusals.PARTITION,
        "postgres",
        (
            "create table o (id bigint, x text) partition by list (x)",
            "create table o_1 partition of o for values in ('a', 'c')",
        ),
    ),
    Case(
        "no partition",
        refusals.PARTITION,
        "mariadb",
        (
            "create table o (id bigint, x varchar(8)) partition by list columns (x) (partition p values in ('a', 'c'))",
        ),
    ),
    *(
        Case(
            "a view",
            refusals.CHECK_OPTION,
            database,
            (
                "create table base (id bigint, x varchar(8))",
                "create view o as select * from base where x <> 'bad' with check option",
            ),
        )
        for database in ("postgres", "mariadb")
    ),
    Case(
        "a policy",
        refusals.ROW_SECURITY,
        "postgres",
        (
            "create table o (id bigint, x text)",
            "alter table o enable row level security",
            "create policy w on o for insert with check (x <> 'bad')",
            "create policy r on o for select using (true)",
            "grant all on o to rowtide_app",
        ),
        as_role=True,
    ),
    *(
        Case(name, refusals.TRIGGER, "postgres", trigger(f"if new.x = 'bad' then {body}; end if;"))
        for name, body in (
            ("RAISE", "raise exception 'not allowed'"),
            ("RAISE with a code of its own", "raise exception 'not allowed' using errcode = 'ZZ001'"),
            ("RAISE with the code of a right", "raise exception 'not allowed' using errcode = '42501'"),
            ("ASSERT", "assert false, 'not allowed'"),
        )
    ),
    *(
        Case(
            name,
            refusals.TRIGGER,
            "mariadb",
            (
                "create table o (id bigint, x varchar(8))",
                "create trigger t before insert on o for each row"
                f" if new.x = 'bad' then signal sqlstate '45000' set {says}; end if",
            ),
        )
        for name, says in (
            ("SIGNAL", "message_text = 'not allowed'"),
            ("SIGNAL with a number of its own", "message_text = 'not allowed', mysql_errno = 30001"),
        )
    ),
    *(
        Case(
            f"RAISE({what}, ..)",
            refusals.TRIGGER,
            "sqlite",
            (
                "create table o (id bigint, x text)",
                f"create trigger t before insert on o when new.x = 'bad' begin select raise({what}, 'no'); end",
            ),
        )
        for what in ("ABORT", "FAIL", "ROLLBACK")
    ),
    Case(
        "an expression fails",
        refusals.VALUE,
        "sqlite",
        ("create table o (id bigint, x text check (x in ('a', 'c') or json_extract(x, '$.a') > 0))",),
    ),
)


def of(values: Sequence[str]) -> Topics:
    """Return the messages of topic ``t`` with these values, a second apart."""
    return {"t": [(1_000 * number, {"id": number, "x": value}) for number, value in enumerate(values)]}


def run(url: str, values: Sequence[str], rows: int, key: str = "", type_: str = "VARCHAR") -> list[Any]:
    """Run a pipeline to its end; return its error rows."""
    with opened(PIPELINE, url, of(values), key=key, type=type_) as pipeline:
        return [(each.row.offset, each.row.reason[:10]) for each in run_again(pipeline, rows)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.database}: {case.kind.name}: {case.name}", marks=marks(case.database))
        for case in CASES
    ],
)
def test_a_row_that_fails_alone_is_an_error_row(case: Case, request: pytest.FixtureRequest) -> None:
    owner = url = url_of(request, case.database)
    if case.as_role:
        role = "do $$ begin create role rowtide_app login; exception when duplicate_object then null; end $$"
        made = sa.make_url(url)
        execute(owner, (role, f'grant all on database "{made.database}" to rowtide_app'))
        url = made.set(username="rowtide_app").render_as_string(hide_password=False)
    execute(owner, case.setup)
    values = ["a", case.bad, "c"]
    for rows in (1, 100):
        assert run(url, values, rows, case.key, case.type) == [(1, "CONSTRAINT")]
        assert execute(owner, ["select id, x from o"]) == [(0, "a"), (2, "c")]
        execute(owner, ["delete from o"])


def test_the_cases_are_of_every_kind_of_row() -> None:
    declared = {kind.name for kind in KINDS if kind.consequence is Consequence.ROW}
    assert {case.kind.name for case in CASES} == declared


@pytest.mark.postgres
@pytest.mark.parametrize("rows", [1, 100])
def test_a_table_that_a_trigger_needs_for_one_row_is_not_waited_for(postgres_url: str, rows: int) -> None:
    execute(
        postgres_url,
        (
            *trigger("execute 'insert into of_' || new.x || ' values (1)';"),
            "create table of_a (n int)",
            "create table of_c (n int)",
        ),
    )
    assert run(postgres_url, ["b", "a", "c"], rows) == [(0, "CONSTRAINT")]
    execute(postgres_url, ["delete from o"])
    assert run(postgres_url, ["b", "b"], rows) == [(0, "CONSTRAINT"), (1, "CONSTRAINT")]
    execute(postgres_url, ["create table of_b (n int)"])
    assert run(postgres_url, ["b", "b"], rows) == []


@pytest.mark.parametrize(
    ("database", "setup"),
    [
        pytest.param(
            "postgres",
            trigger("perform new.nothing;"),
            marks=pytest.mark.postgres,
            id="PostgreSQL: a mistake",
        ),
        pytest.param(
            "mariadb",
            (
                "create table o (id bigint, x varchar(8))",
                "create trigger t after insert on o for each row update o set x = 'b'",
            ),
            marks=pytest.mark.mariadb,
            id="MariaDB: a trigger that changes its own table",
        ),
        pytest.param(
            "sqlite",
            (
                "create table o (id bigint, x text)",
                "create table log (x text)",
                "create trigger t after insert on o begin insert into log (y) values (new.x); end",
            ),
            id="SQLite: a mistake",
        ),
    ],
)
def test_a_table_that_takes_no_row_is_waited_for_and_named(
    database: str, setup: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    execute(url, setup)
    for rows in (1, 100):
        with pytest.raises(TransientError, match='refused alike: table "o" refuses a row') as met:
            run(url, ["a", "b"], rows)
        assert 'table of "O"' in str(met.value.hint)
    assert execute(url, ["select * from o"]) == []
    execute(url, ["drop trigger t on o" if database == "postgres" else "drop trigger t"])
    with opened(PIPELINE, url, of(["a", "b"]), key="", type="VARCHAR") as pipeline:
        Service(committing(pipeline, 100)).run(until_end=True)
    assert execute(url, ["select x from o"]) == [("a",), ("b",)]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("database", "found"),
    [
        pytest.param("postgres", [(1, "a    "), (2, "b    ")], marks=pytest.mark.postgres),
        pytest.param("mariadb", [(1, "a"), (2, "b")], marks=pytest.mark.mariadb),
        pytest.param("sqlite", [(0, "a"), (1, "a  "), (2, "b")]),
    ],
)
def test_keys_are_equal_where_the_database_takes_them_for_one(
    database: str, found: list[Any], rows: int, request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    assert run(url, ["a", "a  ", "b"], rows, KEY, "CHAR(5)") == []
    assert execute(url, ["select id, x from o"]) == found


@pytest.mark.postgres
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_rows_to_which_a_trigger_gives_one_key_are_written_one_after_the_other(
    postgres_url: str, rows: int
) -> None:
    _, function, created = trigger("new.x := lower(new.x);")
    execute(postgres_url, ("create table o (id bigint, x text primary key)", function, created))
    # The tables differ from what the pipeline computes, since the trigger changes it.
    values = of(["a", "B", "A", "b", "c"])
    with opened(PIPELINE, postgres_url, values, key=KEY, type="VARCHAR") as pipeline:
        Service(committing(pipeline, rows)).run(until_end=True)
        assert pipeline.ledger.errors(ErrorFilter(), None) == []
    assert execute(postgres_url, ["select id, x from o"]) == [(2, "a"), (3, "b"), (4, "c")]


@pytest.mark.postgres
def test_a_deferred_key_may_be_satisfied_by_a_later_row_of_the_commit(postgres_url: str) -> None:
    execute(
        postgres_url,
        (
            "create table o (id bigint, x text primary key, parent text generated always as"
            " (nullif(split_part(x, '.', 2), '')) stored,"
            " foreign key (parent) references o deferrable initially deferred)",
        ),
    )
    # Each key names its parent: only that of the third is missing.
    assert run(postgres_url, ["child.parent", "parent", "orphan.nobody", "other.parent"], 100, KEY) == [
        (2, "CONSTRAINT")
    ]
    assert execute(postgres_url, ["select id from o"]) == [(0,), (1,), (3,)]


def as_written(sqlstate: str) -> ConnectorError:
    """Return the error that a write of rows raises after a report of PostgreSQL."""
    cause = psycopg.errors.lookup(sqlstate) if sqlstate in KNOWN_STATES else psycopg.OperationalError
    reported = type("Reported", (cause,), {"sqlstate": sqlstate})("as reported")
    with pytest.raises(ConnectorError) as met, write_errors("database"):
        raise sa.exc.DBAPIError.instance("", {}, reported, psycopg.Error)
    return met.value


WAITED_FOR = {
    *(
        "08006",
        "57P01",
        "57P05",
        "25P03",
        "40001",
        "40P01",
        "55P03",
        "53100",
        "53200",
        "58030",
        "XX001",
        "25006",
    ),
    *("42501", "28000", "42P01", "3F000"),
}
KNOWN_STATES = {"23505", "22001", "40001", "42501", "42P01"}


@given(sqlstate=st.sampled_from(sorted(WAITED_FOR)) | st.from_regex(r"[0-9A-Z]{5}", fullmatch=True))
def test_whatever_is_not_known_as_an_outage_is_of_a_row(sqlstate: str) -> None:
    error = as_written(sqlstate)
    outage = sqlstate.startswith(
        ("08", "25", "57", "40", "55006", "55P03", "53", "58", "F0", "XX001", "XX002")
    )
    outage = outage or sqlstate.startswith(("28", "3D000", "42501", "3F000", "42P01"))
    assert sqlstate not in WAITED_FOR or outage
    assert isinstance(error, UnavailableError | GoneError) if outage else isinstance(error, RowDataError)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("encoding", "stored"),
    [("LATIN1", "\\u20ac gr\u00f6\u00dfe"), ("EUC_JP", "\\u20ac gr\\u00f6\\u00dfe"), ("WIN1252", None)],
)
def test_the_error_row_of_a_text_that_the_encoding_lacks_is_stored(
    postgres_server: PostgresServer, encoding: str, stored: str | None
) -> None:
    name = f"e_{uuid.uuid4().hex[:8]}"
    postgres_server.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
    url = postgres_server.url(name)
    euro, smile = "\u20ac gr\u00f6\u00dfe", "\U0001f600 \\\\ue000"
    refused = [(1, "CONSTRAINT")] * (stored is not None) + [(2, "CONSTRAINT")]
    for rows in (1, 100):
        assert run(url, ["a", euro, smile, "b"], rows) == refused
        rest = sorted(["a", "b"] + [euro] * (stored is None))
        assert execute(url, ["select x from o"]) == [(each,) for each in rest]
        execute(url, ["delete from o"])
    texts = [row[0] for row in execute(url, ["select row_json from rowtide.errors"])]
    assert [json.loads(each)["X"] for each in texts] == [euro, smile][-len(refused) :]
    if stored is not None:
        assert stored in texts[0]
    postgres_server.execute(f"drop database {name} with (force)")


@pytest.mark.postgres
def test_a_checkpoint_that_others_have_changed_is_named_and_waited_for(postgres_url: str) -> None:
    execute(postgres_url, ["create table o (id bigint, x text check (x <> 'bad'))"])
    assert run(postgres_url, ["a"], 1) == []
    execute(postgres_url, ["alter table rowtide.errors add check (relation <> 'O')"])
    with pytest.raises(TransientError, match="the checkpoint cannot store error rows") as met:
        run(postgres_url, ["bad"], 1)
    assert "drop constraints and triggers" in str(met.value.hint)


TESTS: dict[str, list[Callable[..., None]]] = {
    refusals.ONE_KEY.name: [test_rows_to_which_a_trigger_gives_one_key_are_written_one_after_the_other],
    refusals.OF_TABLE.name: [
        test_a_table_that_takes_no_row_is_waited_for_and_named,
        test_a_table_that_a_trigger_needs_for_one_row_is_not_waited_for,
    ],
    refusals.TIME_OUT.name: [
        of_limited_size.test_statements_that_the_server_cancels_are_repeated_with_fewer_rows,
        of_limited_size.test_a_row_that_alone_takes_too_long_is_waited_for_and_named,
    ],
}
"""Of the kinds that have no cases. Others that are waited for have the last test above."""


def shown_by(kind: RefusalKind) -> str:
    """Return the cases of a kind, or its tests."""
    if kind.consequence is Consequence.ROW:
        cases = [(each.database, each.name) for each in CASES if each.kind is kind]
        places = {"postgres": "PostgreSQL", "mariadb": "MariaDB", "sqlite": "SQLite"}
        return "; ".join(
            f"{place}: {', '.join(name for of, name in cases if of == database)}"
            for database, place in places.items()
            if database in dict(cases)
        )
    tests = TESTS.get(kind.name, [test_whatever_is_not_known_as_an_outage_is_of_a_row])
    return ", ".join(f"`{test.__name__}`" for test in tests)


def table_of_kinds() -> str:
    """Return the table of docs/guarantees.md."""
    lines = [
        "| what the database reports | PostgreSQL: SQLSTATE | MariaDB, MySQL: number | SQLite | what follows | cases |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        codes = ", ".join(map(str, kind.codes)) or ("1" if kind.sqlite_says else "")
        states = ", ".join(each if len(each) == 5 else f"{each}..." for each in kind.sqlstates)
        cells = (kind.name, states, spans(kind.numbers), codes, kind.consequence.value, shown_by(kind))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spans(given: Collection[int]) -> str:
    """Return numbers with those that follow one another as one span."""
    found: list[list[int]] = []
    for number in sorted(given):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in found)


def test_the_table_of_the_guarantees_is_that_of_the_declaration() -> None:
    page = Path(__file__).parents[3] / "docs" / "guarantees.md"
    assert table_of_kinds() in page.read_text(), table_of_kinds()
