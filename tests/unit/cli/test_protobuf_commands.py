"""``connectors infer`` and ``connectors check`` of topics with Protobuf messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide_connectors.memory import memory_broker
from support.protobuf import FILE, headed, register, written
from support.registry import FakeRegistry

TOPIC = "orders"
OPTIONS = ("--wrapper", "memory", "--option", "broker=protobuf commands")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["connectors", *map(str, arguments)])


def produce(values: list[bytes | None]) -> None:
    broker = memory_broker("protobuf commands")
    broker.ensure_topic(TOPIC, 1)
    broker.produce(TOPIC, values, timestamps=[1] * len(values))


@pytest.mark.parametrize(
    ("name", "fields", "lines"),
    [
        (
            "shop.Order",
            {"id": 1, "user": {"name": "ann"}},
            [
                "  id BIGINT NOT NULL,",
                "  note VARCHAR,",
                "  user_address_city VARCHAR OPTIONS (path '$.user.address.city'),",
                "  items JSON NOT NULL,  -- repeated",
                "  props JSON NOT NULL,  -- a map",
                "  voucher INTEGER",
            ],
        ),
        (
            "shop.Everything",
            {"f_uint64": 2**64 - 1, "at": "2026-01-01T00:00:00Z", "lapse": "1.5s", "tree": {"n": 1}},
            [
                "  f_uint64 DECIMAL(20, 0) NOT NULL,",
                "  f_bytes VARBINARY NOT NULL,",
                "  color VARCHAR(17) NOT NULL,",
                "  at TIMESTAMP,",
                "  lapse DECIMAL(21, 9),",
                "  w_bool BOOLEAN,",
                "  tree_inside JSON OPTIONS (path '$.tree.inside'),  -- repeated",
            ],
        ),
        ("legacy.Event", {"id": 1, "extra": {"n": 2}}, ["  id BIGINT NOT NULL,", "  level VARCHAR(11),"]),
        ("shop.Tree", {"n": 1}, ["  n INTEGER NOT NULL,"]),
    ],
)
def test_infer_proposes_by_descriptors_what_check_then_accepts(
    tmp_path: Path, name: str, fields: dict[str, object], lines: list[str]
) -> None:
    produce([written(name, **fields)])
    answer = run("infer", TOPIC, *OPTIONS, "--descriptor", FILE, "--message", name)
    assert answer.exit_code == 0, answer.stderr
    assert set(lines) <= set(answer.output.splitlines())
    file = tmp_path / "inferred.sql"
    file.write_text(answer.output)
    checked = run("check", file, "--sample", 1)
    assert checked.exit_code == 0, checked.output
    assert "1 of 1 messages decode" in checked.output


def test_infer_proposes_by_the_newest_schema_of_a_registry(registry: FakeRegistry, tmp_path: Path) -> None:
    number = register(registry, f"{TOPIC}-value")
    produce([headed(number, written("shop.User", name="ann"), [1])])
    first = run("infer", TOPIC, *OPTIONS, "--registry", registry.url)
    assert "message 'shop.Order', format 'PROTOBUF'" in first.output
    answer = run("infer", TOPIC, *OPTIONS, "--registry", registry.url, "--message", "shop.User")
    file = tmp_path / "inferred.sql"
    file.write_text(answer.output)
    checked = run("check", file, "--sample", 1)
    assert checked.exit_code == 0, checked.output
    assert "1 of 1 messages decode" in checked.output
    # Another message of the schema than the declared one.
    file.write_text(first.output)
    assert "the message is shop.User, not shop.Order" in run("check", file, "--sample", 1).output
    registry.serializes = False
    refused = run("infer", TOPIC, *OPTIONS, "--registry", registry.url)
    assert (refused.exit_code, "descriptor '/etc/rowtide/orders.desc'" in refused.stderr) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--message", "shop.Order"), "--message needs --descriptor or --registry"),
        (("--descriptor", FILE), "Add message 'NAME'. The messages are legacy.Event"),
        (("--descriptor", FILE, "--message", "shop.Ordr"), 'Did you mean "shop.Order"?'),
        (("--descriptor", "/none.desc"), '"/none.desc" cannot be read'),
        (("--descriptor", FILE, "--registry", "http://localhost:1"), "cannot be combined with --registry"),
    ],
)
def test_infer_says_what_is_missing(arguments: tuple[object, ...], words: str) -> None:
    answer = run("infer", TOPIC, *OPTIONS, *arguments)
    assert answer.exit_code == 2
    assert words in answer.stderr, answer.stderr
