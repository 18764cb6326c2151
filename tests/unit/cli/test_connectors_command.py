"""``rowtide connectors``: what it shows, and with what code it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide.testing.processes import free_port
from rowtide_connectors.memory import memory_broker

PIPELINE = """\
CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'connectors check');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (price INTEGER) SERVER here
  OPTIONS (topic 'orders', partitions '3', format 'JSON');
CREATE FOREIGN TABLE result (price INTEGER) SERVER db;
CREATE PUMP p STARTED AS INSERT INTO result SELECT STREAM price FROM orders;
"""


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["connectors", *(str(arg) for arg in args)])


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.sql"
    path.write_text(PIPELINE.format(file=tmp_path / "sink.db"), encoding="utf-8")
    return path


def test_list_names_what_is_installed() -> None:
    assert "kafka      Apache Kafka topics as foreign streams\n" in run("list").output
    listed = json.loads(run("list", "--json").output)["connectors"]
    assert {"kafka", "memory", "rdbms"} <= {each["name"] for each in listed}


def test_describe_gives_each_option_with_type_default_and_meaning() -> None:
    text = run("describe", "KAFKA").output
    assert "options of a server:" in text
    assert "bootstrap_servers  brokers to begin with" in text
    assert "(text, required)" in text
    assert "default 10.0" in text
    options = json.loads(run("describe", "rdbms", "--json").output)["options"]
    (password,) = (each for each in options if each["name"] == "password")
    assert password["secret"] is True
    assert password["applies_to"] == "server"


def test_an_unknown_connector_is_a_usage_error() -> None:
    told = run("describe", "kafak")
    assert told.exit_code == 2
    assert 'Did you mean "kafka"?' in told.stderr


def test_check_tries_everything_and_creates_nothing(pipeline: Path) -> None:
    told = run("check", pipeline)
    assert told.exit_code == 0, told.output
    assert 'ok      server HERE: broker "connectors check" in this process' in told.output
    assert 'ok      stream ORDERS: topic "orders", 3 partition(s)' in told.output
    assert "ok      table RESULT: will be created" in told.output
    assert "ok      table RESULT: will be created" in run("check", pipeline).output


def test_check_gives_its_findings_to_a_program(pipeline: Path) -> None:
    found = json.loads(run("check", pipeline, "--json").output)
    assert found["ok"] is True
    assert {"kind": "table", "name": "RESULT"}.items() <= found["tried"][-1].items()


def test_the_configuration_replaces_options_and_what_is_down_is_code_3(
    pipeline: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[servers.db]\nurl = "postgresql://u:geheim@127.0.0.1:{free_port()}/x"\nconnect_timeout_s = 2\n'
        '[streams.orders]\ntopic = "elsewhere"\n'
    )
    told = run("check", pipeline, "--config", config)
    assert told.exit_code == 3
    assert "FAILED  server DB: " in told.output
    assert "geheim" not in told.output
    assert 'topic "elsewhere"' in told.output
    assert "table RESULT" not in told.output


def test_a_wrong_option_is_code_2_also_beside_what_is_down(pipeline: Path) -> None:
    memory_broker("connectors check").set_down()
    try:
        pipeline.write_text(pipeline.read_text().replace("url", "uri"))
        told = run("check", pipeline)
    finally:
        memory_broker("connectors check").set_down(False)
    assert told.exit_code == 2
    assert 'option "uri" of connector "rdbms" does not exist' in told.output
    assert 'hint: Did you mean "url"?' in told.output
    assert "FAILED  stream ORDERS" in told.output


def test_a_name_in_the_configuration_that_the_pipeline_lacks_is_refused(
    pipeline: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[servers.ddb]\nurl = 'x'\n")
    told = run("check", pipeline, "--config", config)
    assert told.exit_code == 2
    assert 'server "DDB" of the configuration is not in the pipeline' in told.stderr
