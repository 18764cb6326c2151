"""A broker that cannot be connected to is named at once, with the cause and what to do, whoever asks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowtide.testing.processes import free_port
from rowtide_connectors.api import Connector
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.kafka.connector import KafkaMessages, KafkaTopics
from rowtide_connectors.registry import find_connector

ASKED: dict[str, Callable[[Connector, dict[str, str]], object]] = {
    "a server": lambda kafka, server: kafka.check(server),
    "a topic": lambda _, server: KafkaTopics().open(server, {"topic": "t"}).ranges(),
    "topics by a pattern": lambda _, server: KafkaTopics().open(server, {"topic_pattern": "t.*"}).ranges(),
    "a written topic": lambda _, server: KafkaMessages().open(server, {"topic": "t"}, "me", 1_000).check(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_the_cause_is_known_long_before_the_time_limit(
    ask: Callable[[Connector, dict[str, str]], object],
) -> None:
    address = f"127.0.0.1:{free_port()}"
    # A test that waited for the limit would fail by its own time limit.
    server = {"bootstrap_servers": address, "timeout_s": "3600"}
    with pytest.raises(UnavailableError) as raised:
        ask(find_connector("kafka"), server)
    assert raised.value.message.startswith(f"Kafka does not answer: {address}")
    assert "Connection refused" in raised.value.message
    assert raised.value.hint is not None
    assert "bootstrap_servers" in raised.value.hint
