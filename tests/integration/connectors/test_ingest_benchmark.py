"""The benchmark of reading measures both clients of Kafka over the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from real.kafka import Broker
from rowtide.bench.ingest import kafka_ingest
from rowtide.bench.servers import BROKER
from rowtide.clock import SystemClock
from rowtide.errors import StatementError


@pytest.mark.kafka
def test_both_clients_read_and_decode_every_message(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKER, kafka.bootstrap_servers)
    outcome = kafka_ingest(3_000, tmp_path, SystemClock())
    assert (outcome.check, outcome.rows_out) == ("ok", 3_000)
    assert set(outcome.more) == {
        f"{client}_{step}_cpu_s_per_million"
        for client in ("compiled", "plain")
        for step in ("read", "decoded")
    }
    assert all(outcome.more.values())


def test_without_a_broker_it_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BROKER, raising=False)
    with pytest.raises(StatementError, match=f"{BROKER} is not set"):
        kafka_ingest(10, tmp_path, SystemClock())
