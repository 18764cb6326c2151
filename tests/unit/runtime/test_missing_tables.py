"""An output table that is gone is not created again without a word where rows have been committed to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number BIGINT) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT) SERVER d;
CREATE FOREIGN TABLE latest (number BIGINT, PRIMARY KEY (number)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO log SELECT STREAM number FROM readings;
CREATE PUMP q STARTED AS INSERT INTO latest SELECT STREAM number FROM readings;
"""
MORE = """
CREATE FOREIGN TABLE more (number BIGINT) SERVER d;
CREATE PUMP r STARTED AS INSERT INTO more SELECT STREAM number FROM readings;
"""
CONFIG = '[service]\nlisten = "127.0.0.1:0"\n'


class Files(PipelineFiles):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, CONFIG)
        self.broker.ensure_topic("readings", 1)
        self.sent = 0
        self.send()
        self.run()

    def send(self) -> None:
        self.broker.produce("readings", [b'{"number":%d}' % self.sent], timestamps=[self.sent])
        self.sent += 1

    def execute(self, statement: str) -> None:
        connection = sqlite3.connect(self.database)
        connection.execute(statement)
        connection.commit()
        connection.close()

    def has(self, table: str) -> bool:
        return bool(self.rows(f"sqlite_master where name = '{table}'"))


@pytest.mark.parametrize("how", ["drop table log", "alter table log rename to elsewhere"])
def test_a_table_that_is_gone_is_refused_at_every_start_and_not_created(tmp_path: Path, how: str) -> None:
    files = Files(tmp_path)
    files.execute(how)
    for _ in range(2):
        said = files.call("run", "--until-end", code=2)
        assert '"LOG" do not exist' in said
        assert "LATEST" not in said
        assert "--recreate-tables" in said
        assert not files.has("log")


def test_a_table_that_is_back_is_written_on(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.execute("alter table log rename to elsewhere")
    files.call("run", "--until-end", code=2)
    files.execute("alter table elsewhere rename to log")
    files.send()
    files.run()
    assert files.rows("log") == [(0,), (1,)]


def test_a_table_is_created_again_when_it_is_asked_for(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.execute("drop table log")
    files.send()
    files.call("run", "--until-end", "--recreate-tables")
    assert files.rows("log") == [(1,)]
    assert files.rows("latest") == [(0,), (1,)]
    files.send()
    files.run()
    assert files.rows("log") == [(1,), (2,)]


def test_before_anything_is_committed_missing_tables_are_created(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.execute("drop table log")
    files.call("state drop", "--all", "--yes")
    files.run()
    assert files.rows("log") == [(0,)]


def test_a_change_creates_its_own_tables_and_none_that_rows_were_committed_to(tmp_path: Path) -> None:
    files = Files(tmp_path)
    was = tmp_path / "was.sql"
    was.write_text(files.text)
    files.sql.write_text(files.text + MORE.format(file=files.database))
    files.execute("drop table log")
    said = files.call("apply", "--was", str(was), "--yes", code=2)
    assert '"LOG" do not exist' in said
    assert not files.has("log")
    files.execute("create table log (number bigint)")
    files.call("apply", "--was", str(was), "--yes")
    files.send()
    files.run()
    assert files.rows("more") == [(1,)]
