"""``rowtide connectors``: what it shows, and with what code it leaves."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
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
    assert "kafka      source, message sink   Apache Kafka topics\n" in run("list").output
    listed = json.loads(run("list", "--json").output)["connectors"]
    assert {"kafka", "memory", "rdbms"} <= {each["name"] for each in listed}
    assert {each["name"]: each["offers"] for each in listed}["rdbms"] == ["tables", "sink"]


def test_describe_gives_each_option_with_type_default_and_meaning() -> None:
    text = run("describe", "KAFKA").output
    assert "options of a server:" in text
    assert "bootstrap_servers  bootstrap brokers" in text
    assert "(text, required)" in text
    assert "default 10.0" in text
    for own in ("format ", "max_ahead ", "idle_timeout ", "append_time "):
        assert f"  {own}" in text
    assert (
        "AVRO, BSON, CSV, DEBEZIUM_AVRO, DEBEZIUM_JSON, JSON, KEY_VALUE, PROTOBUF, RAW, XML (text, default JSON)"
        in text
    )
    assert "options of a column:" in text
    assert "  time_unit " in text
    assert "every setting of librdkafka" in text
    assert "idle_timeout" not in run("describe", "rdbms").output
    options = json.loads(run("describe", "rdbms", "--json").output)["options"]
    (password,) = (each for each in options if each["name"] == "password")
    assert password["secret"] is True
    assert password["applies_to"] == "server"


def test_describe_gives_what_a_connector_offers_and_with_which_guarantee() -> None:
    assert (
        "kafka: Apache Kafka topics\n"
        "source: exactly once: rows and positions commit in one transaction\n"
        "sink: none\n"
    ) in run("describe", "kafka").output
    described = json.loads(run("describe", "rdbms", "--json").output)
    assert described["source"] is None
    assert described["sink"] == {"guarantee": "exactly once: rows and positions commit in one transaction"}


def test_check_refuses_what_a_connector_does_not_offer(pipeline: Path) -> None:
    pipeline.write_text(pipeline.read_text().replace("SERVER db;", "SERVER here;"))
    answer = run("check", pipeline)
    assert answer.exit_code == 2
    assert (
        'FAILED  table RESULT: connector "memory" cannot be written to: it has no sink\n'
        "        hint: Connectors with a sink: rdbms.\n"
    ) in answer.output


def test_an_unknown_connector_is_a_usage_error() -> None:
    answer = run("describe", "kafak")
    assert answer.exit_code == 2
    assert 'Did you mean "kafka"?' in answer.stderr


def test_check_tries_everything_and_creates_nothing(pipeline: Path) -> None:
    answer = run("check", pipeline)
    assert answer.exit_code == 0, answer.output
    assert 'ok      server HERE: broker "connectors check" in this process' in answer.output
    assert 'ok      stream ORDERS: topic "orders", 3 partition(s)' in answer.output
    assert "ok      table RESULT: will be created" in answer.output
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
    answer = run("check", pipeline, "--config", config)
    assert answer.exit_code == 3
    assert "FAILED  server DB: " in answer.output
    assert "geheim" not in answer.output
    assert 'topic "elsewhere"' in answer.output
    assert "FAILED  table RESULT: not tried: server DB failed" in answer.output


def test_what_is_of_a_server_with_an_unknown_setting_of_librdkafka_fails_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.sql"
    path.write_text(
        PIPELINE.format(file=tmp_path / "sink.db")
        .replace(
            "MEMORY OPTIONS (broker 'connectors check')",
            "KAFKA OPTIONS (bootstrap_servers '127.0.0.1:1', \"security.protcol\" 'SSL')",
        )
        .replace("partitions '3', ", "")
    )
    answer = run("check", path)
    assert answer.exit_code == 2
    assert "security.protcol" in answer.output
    assert "FAILED  stream ORDERS: not tried: server HERE failed" in answer.output
    assert "ok      table RESULT" in answer.output


def test_a_wrong_option_is_code_2_also_beside_what_is_down(pipeline: Path) -> None:
    memory_broker("connectors check").set_down()
    try:
        pipeline.write_text(pipeline.read_text().replace("url", "uri"))
        answer = run("check", pipeline)
    finally:
        memory_broker("connectors check").set_down(False)
    assert answer.exit_code == 2
    assert 'option "uri" of connector "rdbms" does not exist' in answer.output
    assert 'hint: Did you mean "url"?' in answer.output
    assert "FAILED  stream ORDERS" in answer.output


def test_a_name_in_the_configuration_that_the_pipeline_lacks_is_refused(
    pipeline: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[servers.ddb]\nurl = 'x'\n")
    answer = run("check", pipeline, "--config", config)
    assert answer.exit_code == 2
    assert 'server "DDB" of the configuration is not in the pipeline' in answer.stderr


def test_check_decodes_a_sample_and_names_what_is_lost(pipeline: Path) -> None:
    broker = memory_broker("connectors check sample")
    pipeline.write_text(pipeline.read_text().replace("'connectors check'", "'connectors check sample'"))
    broker.ensure_topic("orders", 3)
    broker.produce("orders", [b'{"prise": 3}', b'{"prise": 4, "note": "x"}'], timestamps=[1, 2])
    answer = run("check", pipeline, "--sample", 100)
    assert answer.exit_code == 1
    lines = answer.output.splitlines()
    assert (
        "ok      sample ORDERS: 2 of 2 messages decode; fields that are not declared: prise (2), note (1)"
        in lines
    )
    assert 'FAILED  sample ORDERS: column "PRICE" is in none of 2 messages: it is always NULL' in lines
    assert '        hint: Did you mean "prise"?' in lines
    assert run("check", pipeline).exit_code == 0
    broker.truncate("orders", 2)
    broker.produce("orders", [b'{"price": 3}'], timestamps=[3])
    assert run("check", pipeline, "--sample", 100).exit_code == 0


def test_infer_proposes_what_check_then_accepts(pipeline: Path, tmp_path: Path) -> None:
    broker = memory_broker("connectors infer")
    broker.ensure_topic("shop.sales", 1)
    broker.produce("shop.sales", [b'{"ts": 1767225600000, "amount": 3}'], timestamps=[1])
    option = "broker=connectors infer"
    answer = run("infer", "shop.sales", "--wrapper", "memory", "--option", option)
    assert answer.exit_code == 0
    text = answer.output
    assert text.startswith(
        "CREATE SERVER broker FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'connectors infer');\n"
    )
    file = tmp_path / "inferred.sql"
    file.write_text(text)
    assert run("check", file, "--sample", 10).exit_code == 0
    pipeline.write_text(pipeline.read_text().replace("'connectors check'", "'connectors infer'"))
    of_pipeline = run("infer", "shop.sales", "--pipeline", pipeline).output
    assert ") SERVER here OPTIONS (topic 'shop.sales', format 'JSON');" in of_pipeline
    assert "CREATE SERVER" not in of_pipeline


def test_infer_proposes_a_table_for_envelopes_and_names_what_it_could_not_read(tmp_path: Path) -> None:
    broker = memory_broker("connectors infer changes")
    broker.ensure_topic("shop.users", 1)
    change = b'{"op": "c", "before": null, "after": {"id": 1, "name": "ann"}, "source": {}}'
    broker.produce("shop.users", [b"broken", change], keys=[None, b'{"id": 1}'], timestamps=[1, 2])
    answer = run("infer", "shop.users", "--wrapper", "memory", "--option", "broker=connectors infer changes")
    assert "-- not read: partition 0, offset 0: " in answer.output
    assert "CREATE TABLE users (" in answer.output
    assert "check the PRIMARY KEY" not in answer.output
    assert ") SERVER broker OPTIONS (topic 'shop.users', format 'DEBEZIUM_JSON');" in answer.output
    file = tmp_path / "inferred.sql"
    file.write_text(answer.output)
    assert run("check", file).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--option", "localhost:9092"), ('"localhost:9092" does not name an option', "bootstrap_servers=")),
        (("--pipeline", "{file}", "--server", "db"), ('no server "db" that has topics', "HERE")),
        (("--pipeline", "{file}", "--option", "a=b"), ("--option cannot be combined with --pipeline", "")),
        (("--wrapper", "memory"), ('topic "nothing" has no JSON objects', "Write some messages")),
    ],
)
def test_infer_says_what_is_missing(
    pipeline: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    answer = run("infer", "nothing", *(each.format(file=pipeline) for each in arguments))
    assert answer.exit_code == 2
    assert all(word in answer.stderr for word in words), answer.stderr


def test_check_compares_a_table_of_a_database_with_its_declaration(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database:
        database.execute("create table people (id integer primary key, name varchar(9), changed timestamp)")
    file = tmp_path / "p.sql"

    def checked(columns: str, options: str) -> Result:
        file.write_text(
            f"""CREATE SERVER crm FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{tmp_path / "crm.db"}');
            CREATE TABLE users ({columns}) SERVER crm OPTIONS ({options});"""
        )
        return run("check", file)

    found = checked("id INTEGER PRIMARY KEY", "table_name 'people', changes_by 'changed'")
    assert found.exit_code == 0
    assert 'table USERS: table "people" is there and fits; no index begins with "changed"' in found.output
    for columns, options, words in (
        ("id INTEGER PRIMARY KEY, nam INTEGER", "table_name 'people'", 'column "nam" is missing'),
        ("id INTEGER PRIMARY KEY, name DOUBLE", "table_name 'people'", "declare NAME VARCHAR(9)"),
        ("id INTEGER PRIMARY KEY", "table_name 'persons'", 'table "persons" does not exist'),
    ):
        found = checked(columns, options)
        assert found.exit_code == 2
        assert words in found.output
