"""``plan`` and ``apply`` know what ran: the checkpoint has its text, and ``show`` prints it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE minutes (period TIMESTAMP, total INTEGER) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), SUM(amount) FROM readings GROUP BY FLOOR(ROWTIME TO MINUTE);
"""
MORE = """
CREATE FOREIGN TABLE seen (sensor VARCHAR(8)) SERVER d;
CREATE PUMP p2 STARTED AS INSERT INTO seen SELECT STREAM sensor FROM readings;
"""
CONFIG = '[service]\nlisten = "127.0.0.1:0"\n'


@pytest.fixture
def files(tmp_path: Path) -> PipelineFiles:
    files = PipelineFiles(tmp_path, SQL, CONFIG)
    files.broker.ensure_topic("readings", 1)
    return files


def produce(files: PipelineFiles, *seconds: int) -> None:
    for second in seconds:
        files.broker.produce("readings", [b'{"sensor":"s","amount":1}'], timestamps=[1_000 * second])


def test_a_changed_file_is_compared_with_what_ran_and_applied_without_naming_it(files: PipelineFiles) -> None:
    produce(files, 10, 20)
    files.run()
    files.sql.write_text(files.text + MORE)
    planned = json.loads(files.call("plan", "--json", code=1))
    assert "GroupByPeriod" in [each["operator"] for each in planned["kept"]]
    assert planned["lost"] == []
    assert "keeps its state:" in files.call("plan", code=1)
    assert "can be applied" in files.call("apply", "--dry-run")
    assert "Applied with commit" in files.call("apply", "--yes")
    assert "The plan is unchanged" in files.call("plan")
    produce(files, 30, 70)
    files.run()
    # The group has the rows of both files.
    assert files.rows("minutes") == [("1970-01-01 00:00:00.000", 3)]
    assert files.rows("seen") == [("s",), ("s",)]


def test_the_text_is_that_of_the_last_start_also_if_its_plan_is_the_same(files: PipelineFiles) -> None:
    assert "the checkpoint has no text" in files.call("show", code=2)
    files.run()
    shown = files.text.replace(f"sqlite:///{files.database}", "***")
    assert files.call("show") == shown
    files.sql.write_text(f"-- said better\n{files.text}")
    assert files.call("show") == shown
    files.run()
    assert files.call("show") == f"-- said better\n{shown}"
    files.sql.write_text(files.text + MORE)
    files.call("apply", "--yes")
    assert files.call("show") == shown + MORE


def test_a_checkpoint_of_before_has_no_text_and_the_file_is_named(
    files: PipelineFiles, tmp_path: Path
) -> None:
    files.run()
    with closing(sqlite3.connect(files.database)) as connection, connection:
        connection.execute("update rowtide_pipelines set content = null")
    was = tmp_path / "was.sql"
    was.write_text(files.text)
    files.sql.write_text(files.text + MORE)
    planned = files.call("plan", code=1)
    assert 'pump "P2" is new' in planned
    assert "What happens to the state is not known: the checkpoint" in planned
    assert "--was OLD.sql" in planned
    refused = files.call("apply", "--yes", code=2)
    assert "does not have the text of the file that ran" in refused
    assert "--was OLD.sql" in refused
    assert "keeps its state:" in files.call("plan", "--was", str(was), code=1)
    files.call("apply", "--was", str(was), "--yes")
    assert files.call("show").endswith(MORE)


def test_a_text_that_has_another_plan_by_now_is_named(files: PipelineFiles) -> None:
    files.run()
    with closing(sqlite3.connect(files.database)) as connection, connection:
        kept = json.dumps(files.text.replace("SUM", "MAX"))
        connection.execute("update rowtide_pipelines set content = ?", [kept])
    files.sql.write_text(files.text + MORE)
    refused = files.call("apply", "--yes", code=2)
    assert (
        'the text in the checkpoint is not what pipeline "readings" has run: pump "P1" has changed' in refused
    )
    assert "the text in the checkpoint is not what" in files.call("plan", code=1)
