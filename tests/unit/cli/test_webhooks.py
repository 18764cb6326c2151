"""``rowtide run`` writes rows as requests: options of the environment, restarts, checks, and no secret anywhere."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide_connectors.memory import MemoryBroker, memory_broker
from support.http import Answer, Receiver, receiving, rows_of

PIPELINE = """\
CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE SERVER hooks FOREIGN DATA WRAPPER HTTP OPTIONS (url '{url}');
CREATE FOREIGN STREAM orders (id INTEGER) SERVER here OPTIONS (topic 'orders', format 'JSON');
CREATE FOREIGN TABLE log (id INTEGER) SERVER db;
CREATE FOREIGN STREAM alerts (id INTEGER) SERVER hooks OPTIONS (path 't0ken', format 'JSON');
CREATE PUMP p AS INSERT INTO log SELECT STREAM id FROM orders;
CREATE PUMP q AS INSERT INTO alerts SELECT STREAM id FROM orders WHERE id > 1;
"""
SECRETS = ("t0ken", "s3cret", "k3y")


class Files:
    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.broker: MemoryBroker = memory_broker(name := uuid.uuid4().hex)
        self.broker.create_topic("orders")
        self.pipeline = folder / "alerts.sql"
        self.pipeline.write_text(PIPELINE.format(broker=name, file=folder / "sink.db", url=receiver.url))
        self.count = 0

    def feed(self, messages: int) -> None:
        for _ in range(messages):
            self.count += 1
            self.broker.produce("orders", [b'{"id":%d}' % self.count], timestamps=[self.count])

    def run(self, *arguments: str, **environment: str) -> Result:
        name, *further = arguments
        secrets = {
            "ROWTIDE_SERVERS__HOOKS__AUTHORIZATION": "Bearer s3cret",
            "ROWTIDE_SERVERS__HOOKS__HEADERS": '{"X-Api-Key": "k3y"}',
        }
        runner = CliRunner(env={"ROWTIDE_SERVICE__LISTEN": "127.0.0.1:0", **secrets, **environment})
        found = runner.invoke(app, [*name.split(), str(self.pipeline), *further])
        assert not any(secret in found.output for secret in SECRETS)
        return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture
def files(tmp_path: Path, receiver: Receiver) -> Files:
    return Files(tmp_path, receiver)


def test_rows_are_requests_with_numbers_that_go_on_over_restarts(files: Files, receiver: Receiver) -> None:
    for messages in (3, 2):
        files.feed(messages)
        done = files.run("run", "--until-end")
        assert done.exit_code == 0, done.output
    assert [row for each in receiver.taken for row in rows_of(each)] == [
        (number, {"id": number + 1}) for number in range(1, 5)
    ]
    assert {each.path for each in receiver.taken} == {"/t0ken"}
    assert {each.headers["authorization"] for each in receiver.taken} == {"Bearer s3cret"}
    assert {each.headers["x-api-key"] for each in receiver.taken} == {"k3y"}
    assert len({each.headers["rowtide-sender"] for each in receiver.taken}) == 1


def test_checks_say_what_is_right_and_wrong(files: Files, receiver: Receiver) -> None:
    assert files.run("check").exit_code == 0
    found = files.run("connectors check")
    assert found.exit_code == 0, found.output
    assert f'server HOOKS: "{receiver.url}" answers HEAD with 200' in found.stdout
    assert "the receiver answers and is written to, at least once" in found.stdout
    receiver.answer = lambda _: Answer(401)
    for command in ("connectors check", "run"):
        denied = files.run(command)
        assert denied.exit_code == 3
        assert "answers HEAD with 401" in denied.output
        assert "ROWTIDE_SERVERS__NAME__AUTHORIZATION" in denied.output
    wrong = files.run("check", ROWTIDE_SERVERS__HOOKS__HEADERS="X-Api-Key k3y")
    assert wrong.exit_code == 2
    assert "is not a JSON object of names and texts" in wrong.stderr


def test_a_stream_of_requests_cannot_be_read_and_a_misspelt_option_is_named(files: Files) -> None:
    text = files.pipeline.read_text()
    files.pipeline.write_text(text.replace("SERVER here OPTIONS (topic 'orders',", "SERVER hooks OPTIONS ("))
    found = files.run("check")
    assert found.exit_code == 2
    assert 'connector "http" cannot be read from' in found.stderr
    files.pipeline.write_text(text.replace("(path 't0ken',", "(path 't0ken',\n  batch_row '2',"))
    found = files.run("check")
    assert found.exit_code == 2
    assert 'Did you mean "batch_rows"?' in found.stderr


def test_explain_and_describe_show_options_without_their_values(files: Files) -> None:
    assert files.run("explain").exit_code == 0
    described = json.loads(CliRunner().invoke(app, ["connectors", "describe", "http", "--json"]).stdout)
    secret = {option["name"] for option in described["options"] if option["secret"]}
    assert {"authorization", "headers", "path"} <= secret
