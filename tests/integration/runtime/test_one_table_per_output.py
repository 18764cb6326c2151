"""Where rows are written stays the same table from start to start, whatever is called like the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from real.postgres import PostgresServer
from rowtide.checkpoint.tables import tables_of
from rowtide.cli.main import app
from rowtide_connectors.checkpoint_tables import CHECKPOINT_SCHEMA, CHECKPOINT_TABLES
from rowtide_connectors.memory import memory_broker

pytestmark = pytest.mark.postgres

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE {table} (number BIGINT, PRIMARY KEY (number)) SERVER d {options};
CREATE PUMP p STARTED AS INSERT INTO {table} SELECT STREAM number FROM readings;
"""


class World:
    """A pipeline over the broker in memory into a database of a role that is called ``rowtide``."""

    def __init__(self, folder: Path, server: PostgresServer, role: str = "rowtide") -> None:
        self.folder, self.role = folder, role
        server.execute(f'drop database if exists "{role}"')
        server.execute(f'drop role if exists "{role}"')
        server.execute(f'create role "{role}" login superuser')
        server.execute(f'create database "{role}" owner "{role}"')
        self.url = sa.make_url(server.url(role)).set(username=role).render_as_string(hide_password=False)
        self.engine = sa.create_engine(self.url)
        self.broker = memory_broker(str(folder))
        self.broker.ensure_topic("readings", 1)
        self.sent = 0

    def start(
        self, *, rows: int = 1, table: str = "rowtide", options: str = "", name: str = "p", code: int = 0
    ) -> str:
        """Send rows, run the pipeline over all that is there, and return what it says."""
        for _ in range(rows):
            self.broker.produce("readings", [b'{"number":%d}' % self.sent], timestamps=[self.sent])
            self.sent += 1
        file = self.folder / f"{name}.sql"
        file.write_text(SQL.format(broker=self.folder, url=self.url, table=table, options=options))
        result = CliRunner().invoke(
            app, ["run", str(file), "--until-end", "--no-wait", "--listen", "127.0.0.1:0"]
        )
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def schemas_of(self, table: str) -> list[str]:
        with self.engine.begin() as connection:
            found = connection.exec_driver_sql(
                "select schemaname::text from pg_tables where tablename = %s order by 1", (table,)
            )
            return list(found.scalars())

    def numbers(self, table: str) -> list[int]:
        with self.engine.begin() as connection:
            return list(connection.exec_driver_sql(f"select number from {table} order by 1").scalars())


@pytest.fixture
def world(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[World]:
    made = World(tmp_path, postgres_server)
    yield made
    made.engine.dispose()
    postgres_server.execute("drop database rowtide")
    postgres_server.execute("drop role rowtide")


@pytest.mark.parametrize("table", ["rowtide", "errors", "version"])
def test_three_starts_write_one_table_with_all_rows(world: World, table: str) -> None:
    for _ in range(3):
        world.start(rows=2, table=f'"{table}"')
    own = [CHECKPOINT_SCHEMA] if table in CHECKPOINT_TABLES else []
    assert world.schemas_of(table) == ["public", *own]
    assert world.numbers(f"public.{table}") == list(range(6))


def test_a_table_that_lies_in_the_checkpoint_schema_goes_on_being_used(world: World) -> None:
    world.start(table="other", name="first")
    world.execute("create table rowtide.rowtide (number bigint primary key)")
    for _ in range(3):
        world.start()
    assert world.schemas_of("rowtide") == ["rowtide"]
    assert world.numbers("rowtide.rowtide") == list(range(4))


def test_a_table_that_is_split_over_two_schemas_is_refused_with_both(world: World) -> None:
    world.start(rows=2)
    world.execute("create table rowtide.rowtide (number bigint primary key)")
    said = world.start(code=2)
    assert '"public.rowtide" and "rowtide.rowtide"' in said
    assert "table_name, such as 'public.rowtide'" in said
    world.start(rows=0, options="OPTIONS (table_name 'public.rowtide')")
    assert world.numbers("public.rowtide") == [0, 1, 2]


def test_a_schema_that_comes_first_later_gets_no_second_table(world: World) -> None:
    world.execute("alter role rowtide set search_path = mine, public")
    world.start(rows=2)
    world.execute("create schema mine")
    world.start(rows=2)
    assert world.schemas_of("rowtide") == ["public"]
    assert world.numbers("public.rowtide") == list(range(4))


def test_the_checkpoint_schema_alone_is_no_place_for_new_tables(world: World) -> None:
    world.execute('alter role rowtide set search_path = "$user"')
    assert "no schema to be created in" in world.start(code=3)
    world.execute("create schema rowtide")
    assert "no schema to be created in" in world.start(code=3)


@pytest.mark.parametrize("name", ["rowtide.errors", "rowtide.snapshots"])
def test_a_table_of_the_checkpoint_is_no_output_table(world: World, name: str) -> None:
    said = world.start(options=f"OPTIONS (table_name '{name}')", code=2)
    assert "schema" in said
    world.start(table="other", name="first")
    said = world.start(options=f"OPTIONS (table_name '{name}')", code=2)
    assert f'"{name}" is one of the checkpoint\'s own tables' in said


def test_the_names_of_the_checkpoint_tables_are_those_that_connectors_know() -> None:
    held = tables_of("postgresql")
    names = {getattr(held, each).name for each in held.__slots__}
    assert names | {"version"} == CHECKPOINT_TABLES
