"""``check``, ``connectors check`` and ``run`` agree on which plans can run, and advise nothing that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app

STREAMS = """
CREATE SERVER broker FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{folder}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/out.db');
CREATE SERVER other FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/other.db');
CREATE FOREIGN STREAM readings (celsius INTEGER) SERVER broker OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN STREAM alerts (celsius INTEGER) SERVER broker OPTIONS (topic 'alerts', format 'JSON');
CREATE PUMP p AS INSERT INTO alerts SELECT STREAM celsius FROM readings WHERE celsius > 30;
"""
TABLE = """
CREATE FOREIGN TABLE {0}_log (celsius INTEGER) SERVER {0};
CREATE PUMP into_{0} AS INSERT INTO {0}_log SELECT STREAM celsius FROM readings;
"""
CHECKPOINT = '[checkpoint]\nurl = "sqlite:///{folder}/positions.db"\n'
CASES = {
    "no database": (STREAMS, "", "no foreign table, so its positions have no database to be stored in"),
    "two databases": (
        STREAMS + TABLE.format("db") + TABLE.format("other"),
        "",
        "A pipeline writes to one database",
    ),
    "the database of the checkpoint": (STREAMS, CHECKPOINT, None),
    "the database of a table": (STREAMS + TABLE.format("db"), "", None),
    "a store that nothing knows": (
        STREAMS,
        CHECKPOINT + 'parts = "what://bucket/folder"\n',
        'checkpoint.parts: address "what://bucket/folder" cannot be used',
    ),
    "a store without an absolute path": (
        STREAMS,
        CHECKPOINT + 'parts = "folder"\n',
        "checkpoint.parts: the folder",
    ),
    "a store in a folder": (STREAMS, CHECKPOINT + 'parts = "{folder}/parts"\n', None),
    "its own rows": (
        STREAMS.replace("topic 'readings'", "topic_pattern '.*s'"),
        CHECKPOINT,
        "the pipeline would read its own rows",
    ),
}


def run(command: str, file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*command.split(), str(file), *arguments])


@pytest.mark.parametrize("command", ["check", "connectors check", "run"])
@pytest.mark.parametrize(("sql", "config", "refusal"), CASES.values(), ids=CASES)
def test_each_command_refuses_the_same_plans(
    tmp_path: Path, command: str, sql: str, config: str, refusal: str | None
) -> None:
    from rowtide_connectors.memory import memory_broker

    for topic in ("readings", "alerts"):
        memory_broker(str(tmp_path)).ensure_topic(topic, 1)
    file, settings = tmp_path / "alerts.sql", tmp_path / "config.toml"
    file.write_text(sql.format(folder=tmp_path))
    settings.write_text('[service]\nlisten = "127.0.0.1:0"\n' + config.format(folder=tmp_path))
    more = ["--until-end"] if command == "run" else []
    result = run(command, file, "--config", str(settings), *more)
    assert result.exit_code == (0 if refusal is None else 2), result.output
    if refusal is not None:
        assert refusal in result.output


DEFINITIONS = STREAMS.partition("CREATE PUMP")[0]


@pytest.mark.parametrize("table", ["", "CREATE FOREIGN TABLE log (celsius INTEGER) SERVER db;"])
@pytest.mark.parametrize(("command", "code"), [("check", 0), ("connectors check", 0), ("run", 2)])
def test_each_command_says_that_definitions_alone_do_nothing(
    tmp_path: Path, command: str, code: int, table: str
) -> None:
    from rowtide_connectors.memory import memory_broker

    for topic in ("readings", "alerts"):
        memory_broker(str(tmp_path)).ensure_topic(topic, 1)
    file = tmp_path / "definitions.sql"
    file.write_text(DEFINITIONS.format(folder=tmp_path) + table)
    result = run(command, file, *(["--listen", "127.0.0.1:0"] if command == "run" else []))
    assert result.exit_code == code, result.output
    assert (
        "no pump writes to a foreign table or a foreign stream, so the pipeline does nothing" in result.output
    )
    assert "CREATE PUMP name STARTED AS INSERT INTO" in result.output


POLLED = """
CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'postgresql://app@localhost/shop');
CREATE TABLE customers (id BIGINT PRIMARY KEY, tier VARCHAR(10)) SERVER db OPTIONS (changes_by 'updated_at');
CREATE FOREIGN STREAM orders (customer BIGINT) SERVER broker OPTIONS (topic 'orders', format 'JSON');
CREATE FOREIGN TABLE tiers (tier VARCHAR(10)) SERVER db;
CREATE PUMP fill AS INSERT INTO tiers
  SELECT STREAM c.tier FROM orders AS o JOIN customers AS c ON o.customer = c.id;
"""


def test_check_does_not_advise_an_option_that_a_polled_table_does_not_take(tmp_path: Path) -> None:
    file = tmp_path / "tiers.sql"
    file.write_text(POLLED)
    assert "warning" not in run("check", file).output
    file.write_text(POLLED.replace("'updated_at'", "'updated_at', idle_timeout '30 SECOND'"))
    refused = run("check", file)
    assert refused.exit_code == 2
    assert "every poll moves the rowtime bound of the table" in refused.output


def test_what_is_said_of_a_topic_is_what_readers_of_a_topic_need() -> None:
    described = CliRunner().invoke(app, ["connectors", "describe", "kafka"]).output
    assert "exactly once for readers of committed messages: isolation.level=read_committed" in described
    assert "takes none twice" not in described
