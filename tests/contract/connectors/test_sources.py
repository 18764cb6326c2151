"""The sources of the memory broker, of the test kit and of real Kafka pass the contract suite of sources."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from real.kafka import Broker
from rowtide.testing.contracts import Log, SourceContract
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.kafka_server import KAFKA_VERSION
from rowtide_connectors.api import TopicSource
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_source
from support.files import Folder

KAFKA = pytest.mark.covers("kafka", "source", f"Apache Kafka {KAFKA_VERSION}, a real broker")


class MemoryLog:
    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.broker = memory_broker("contract")
        self.broker.create_topic(topic, 2)

    def source(self) -> TopicSource:
        return find_source("memory").open({"broker": "contract"}, {"topic": self.topic})

    def write(
        self,
        values: Any,
        timestamps: Any = None,
        *,
        partition: int = 0,
        keys: Any = None,
        headers: Any = None,
    ) -> None:
        stamps = [1_000] * len(values) if timestamps is None else timestamps
        self.broker.produce(
            self.topic, values, timestamps=stamps, partition=partition, keys=keys, headers=headers
        )

    def hole(self) -> None:
        self.broker.hole(self.topic)

    @contextmanager
    def transaction(self, values: Any) -> Iterator[None]:
        self.broker.begin_transaction(self.topic)
        self.write(values)
        yield
        self.broker.end_transaction(self.topic)

    def age_out(self, before: int) -> None:
        self.broker.truncate(self.topic, before)

    def add_partition(self) -> None:
        self.broker.add_partitions(self.topic, 3)


class LogOfTheTestKit(MemoryLog):
    """The topic that tests of the runtime use, with polls drawn by lot."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.kept = InMemoryTopic(topic, 2, random.Random(7))
        self.broker = self.kept.broker

    def source(self) -> TopicSource:
        return self.kept


class KafkaLog:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.create_topic(2)

    def source(self) -> TopicSource:
        return find_source("kafka").open(
            {"bootstrap_servers": self.broker.bootstrap_servers}, {"topic": self.topic}
        )

    def write(
        self,
        values: Any,
        timestamps: Any = None,
        *,
        partition: int = 0,
        keys: Any = None,
        headers: Any = None,
    ) -> None:
        self.broker.produce(
            self.topic, values, partition=partition, timestamps=timestamps, keys=keys, headers=headers
        )

    def hole(self) -> None:
        with self.broker.transaction(self.topic, abort=True) as producer:
            producer.produce(self.topic, b"never to be seen", partition=0)

    @contextmanager
    def transaction(self, values: Any) -> Iterator[None]:
        with self.broker.transaction(self.topic) as producer:
            for value in values:
                producer.produce(self.topic, value, partition=0)
            assert producer.flush(30) == 0
            yield

    def age_out(self, before: int) -> None:
        self.broker.delete_records(self.topic, 0, before)

    def add_partition(self) -> None:
        self.broker.add_partitions(self.topic, 3)


class FilesLog:
    """A folder of lines; one file for each time in a row."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path / "lines")
        self.topic = f"{path}/lines"
        self.url = str(path)

    def source(self) -> TopicSource:
        return find_source("files").open(
            {"url": self.url},
            {"path": "lines", "file_format": "LINES", "partitions": "2", "look_every_s": "0"},
        )

    def write(
        self,
        values: Any,
        timestamps: Any = None,
        *,
        partition: int = 0,
        keys: Any = None,
        headers: Any = None,
    ) -> None:
        assert keys is None and headers is None
        stamps = [1_000] * len(values) if timestamps is None else timestamps
        for at, own in groupby(zip(stamps, values, strict=True), key=itemgetter(0)):
            lines = b"".join(value + b"\n" for _, value in own)
            self.folder.put(lines, "txt", at_ms=at, partition=partition, partitions=2)

    def hole(self) -> None:
        self.folder.put(b"", "txt", partition=0, partitions=2)

    def transaction(self, values: Any) -> AbstractContextManager[None]:
        raise AssertionError("a file is listed when it is whole")

    def age_out(self, before: int) -> None:
        raise AssertionError("a file that was listed stays")

    def add_partition(self) -> None:
        raise AssertionError("an option says how many partitions there are")


@pytest.mark.covers("files", "source", "a folder of this machine")
class TestFiles(SourceContract):
    keys = headers = null_values = transactions = retention = growing = identities = writable = False

    @pytest.fixture
    def log(self, tmp_path: Path) -> Log:
        return FilesLog(tmp_path)


class TestSources(SourceContract):
    @pytest.fixture(
        params=[
            pytest.param("memory", marks=pytest.mark.covers("memory", "source", "the broker itself")),
            "test kit",
            pytest.param("kafka", marks=[pytest.mark.kafka, KAFKA]),
            pytest.param("kafka without compiled code", marks=[pytest.mark.kafka, KAFKA]),
        ]
    )
    def log(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Log:
        if request.param.startswith("kafka"):
            if request.param != "kafka":
                monkeypatch.setattr("rowtide_connectors.kafka.reader.library", lambda: "not wanted")
            return KafkaLog(request.getfixturevalue("kafka"))
        made = MemoryLog if request.param == "memory" else LogOfTheTestKit
        return made(f"topic of {request.node.name}")
