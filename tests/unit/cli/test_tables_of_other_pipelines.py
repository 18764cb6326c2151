"""A copied or renamed file is another pipeline: it does not fill the tables of the first one a second time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide_connectors.memory import memory_broker

SQL = """
CREATE SERVER broker FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{folder}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/out.db');
CREATE FOREIGN STREAM readings (celsius INTEGER) SERVER broker OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE {table} SERVER db{options};
CREATE PUMP p AS INSERT INTO {name} SELECT STREAM celsius FROM readings;
"""
REFUSAL = 'table "log" is written by pipeline "first"'


class Folder:
    """A folder with pipelines over one topic of three readings and one database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        broker = memory_broker(str(path))
        broker.ensure_topic("readings", 1)
        broker.produce("readings", [b'{"celsius": %d}' % each for each in range(3)], timestamps=[1, 2, 3])

    def write(self, file: str, name: str = "log", options: str = "") -> Path:
        written = self.path / file
        table = f"{name} (celsius INTEGER)"
        given = f" OPTIONS ({options})" if options else ""
        written.write_text(SQL.format(folder=self.path, table=table, name=name, options=given))
        return written

    def rows(self, table: str = "log") -> int:
        with sqlite3.connect(self.path / "out.db") as connection:
            return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])

    def run(self, file: Path, config: str = "") -> Result:
        settings = self.path / "config.toml"
        settings.write_text('[service]\nlisten = "127.0.0.1:0"\n' + config)
        return cli("run", str(file), "--config", str(settings), "--until-end")


def cli(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    first = found.run(found.write("first.sql"))
    assert first.exit_code == 0, first.output
    assert found.rows() == 3
    return found


@pytest.mark.parametrize(
    ("name", "options"), [("log", ""), ("other", "table_name 'log'"), ("other", "table_name 'LOG'")]
)
def test_a_second_pipeline_is_refused_before_it_changes_anything(
    folder: Folder, name: str, options: str
) -> None:
    second = folder.write("second.sql", name, options)
    for result in (folder.run(second), cli("connectors", "check", str(second))):
        assert result.exit_code == 2
        assert REFUSAL in result.output
        assert "pipeline.name" in result.output
    assert folder.rows() == 3
    assert cli("connectors", "check", str(folder.path / "first.sql")).exit_code == 0


def test_under_the_name_of_the_first_it_continues(folder: Folder) -> None:
    result = folder.run(folder.write("second.sql"), '[pipeline]\nname = "first"\n')
    assert result.exit_code == 0, result.output
    assert folder.rows() == 3


def test_a_table_can_be_shared_on_purpose(folder: Folder) -> None:
    assert folder.run(folder.write("second.sql", options="shared 'TRUE'")).exit_code == 0
    assert folder.rows() == 6
    refused = cli("check", str(folder.write("third.sql", options="shared 'perhaps'")))
    assert refused.exit_code == 2
    assert "shared" in refused.output


def test_a_change_cannot_take_a_table_of_another_pipeline(folder: Folder) -> None:
    own = folder.write("second.sql", "own")
    assert folder.run(own).exit_code == 0
    (folder.path / "new").mkdir()
    changed = folder.write("new/second.sql", "log")
    result = cli("apply", str(changed), "--was", str(own), "--yes", "--lose")
    assert result.exit_code == 2
    assert REFUSAL in result.output
    assert (folder.rows(), folder.rows("own")) == (3, 3)


def test_a_table_that_is_given_up_is_free(folder: Folder) -> None:
    second = folder.write("second.sql")
    assert cli("state", "drop", str(folder.path / "first.sql"), "--all", "--yes").exit_code == 0
    assert folder.run(second).exit_code == 0
    assert folder.rows() == 6
