"""Where the real parts of tests run: in processes, and in containers only if that is asked for."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path

import pytest

from real.kafka import container_settings
from real.parts import CONTAINERS, uses_containers

REAL = Path(__file__).parents[1] / "real"


@pytest.mark.parametrize(
    ("value", "asked"),
    [(None, False), ("", False), ("0", False), ("false", False), ("1", True), ("true", True)],
)
def test_containers_are_used_if_the_environment_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, value: str | None, asked: bool
) -> None:
    # An engine that answers is no reason to change what is tested.
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    if value is None:
        monkeypatch.delenv(CONTAINERS, raising=False)
    else:
        monkeypatch.setenv(CONTAINERS, value)
    assert uses_containers() is asked


def test_a_value_that_says_neither_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTAINERS, "perhaps")
    with pytest.raises(pytest.fail.Exception, match="perhaps"):
        uses_containers()


def test_the_broker_in_a_container_reaches_itself() -> None:
    """Else transactions time out: the address for clients is the host's."""
    settings = container_settings(31234)
    listens, advertises = (
        dict(each.split("://") for each in settings[name].split(","))
        for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
    )
    protocols = dict(each.split(":") for each in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    own = settings["KAFKA_INTER_BROKER_LISTENER_NAME"]
    assert listens[own] == advertises[own]
    assert own != settings["KAFKA_CONTROLLER_LISTENER_NAMES"]
    assert protocols.keys() == listens.keys()
    assert advertises.keys() <= listens.keys()
    assert advertises["PLAINTEXT"].endswith(":31234")


def test_what_the_fixtures_import_is_not_deprecated() -> None:
    named = {
        name
        for path in REAL.glob("*.py")
        for name in re.findall(r"from (testcontainers[.\w]*) import", path.read_text())
    }
    assert named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in named:
            importlib.import_module(name)
