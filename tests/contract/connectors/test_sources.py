"""What every source does, on the memory broker and on real Kafka."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pytest

from real.kafka import Broker
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.api import Messages, OffsetRange, PartitionReader, TopicSource, WritableSource
from rowtide_connectors.errors import GoneError
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_source

PATIENCE_S = 30.0


class Log(Protocol):
    """A topic to write to, and its source."""

    topic: str

    def source(self) -> TopicSource: ...
    def write(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        *,
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes]] | None] | None = None,
    ) -> None: ...
    def hole(self) -> None:
        """Leave at least one offset of partition 0 without a message."""

    def age_out(self, before: int) -> None: ...


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

    def age_out(self, before: int) -> None:
        self.broker.truncate(self.topic, before)


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

    def age_out(self, before: int) -> None:
        self.broker.delete_records(self.topic, 0, before)


@pytest.fixture(
    params=[
        "memory",
        "test kit",
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kafka without compiled code", marks=pytest.mark.kafka),
    ]
)
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Log:
    if request.param.startswith("kafka"):
        if request.param != "kafka":
            monkeypatch.setattr("rowtide_connectors.kafka.reader.library", lambda: "not wanted")
        return KafkaLog(request.getfixturevalue("kafka"))
    made = MemoryLog if request.param == "memory" else LogOfTheTestKit
    return made(f"topic of {request.node.name}")


@pytest.fixture
def readers(log: Log) -> Iterator[list[PartitionReader]]:
    opened: list[PartitionReader] = []
    yield opened
    for reader in opened:
        reader.close()


def read(log: Log, readers: list[PartitionReader], positions: Mapping[int, int]) -> PartitionReader:
    reader = log.source().reader(positions)
    readers.append(reader)
    return reader


def poll_until(
    reader: PartitionReader, ends: Mapping[int, int], max_messages: int = 1000
) -> dict[int, list[Messages]]:
    """Poll until every partition has reached its end; give what came, by partition."""
    given: dict[int, list[Messages]] = {partition: [] for partition in ends}
    reached = dict.fromkeys(ends, 0)
    deadline = time.monotonic() + PATIENCE_S
    while any(reached[partition] < end for partition, end in ends.items()):
        assert time.monotonic() < deadline, f"{reached} reached of {ends}"
        polled = reader.poll(max_messages, 0.5)
        assert sum(len(messages.values) for messages in polled) <= max_messages
        assert len({messages.partition for messages in polled}) == len(polled)
        for messages in polled:
            given[messages.partition].append(messages)
            reached[messages.partition] = messages.next_offset
    return given


def values_of(parts: Sequence[Messages]) -> list[bytes | None]:
    return [value for messages in parts for value in messages.values]


def headers_of(parts: Sequence[Messages]) -> list[Sequence[tuple[str, bytes]] | None]:
    return [one for messages in parts for one in messages.headers or [None] * len(messages.values)]


def ends_of(log: Log) -> dict[int, int]:
    return {partition: held.end for partition, held in log.source().ranges().items()}


def test_messages_come_as_they_were_written(log: Log, readers: list[PartitionReader]) -> None:
    log.write(
        [b"one", None, b""],
        [5_000, 4_000, 2_000_000_000_000],
        keys=[None, b"k", b""],
        headers=[None, [("rowtide.bound", b"17"), ("x", b"")], None],
    )
    parts = poll_until(read(log, readers, {0: 0}), {0: 3})[0]
    for messages in parts:
        assert messages.topic == log.topic
        assert messages.offsets.dtype == messages.timestamps.dtype == np.int64
    assert [int(offset) for messages in parts for offset in messages.offsets] == [0, 1, 2]
    assert [int(at) for messages in parts for at in messages.timestamps] == [5_000, 4_000, 2_000_000_000_000]
    assert [key for messages in parts for key in messages.keys] == [None, b"k", b""]
    assert values_of(parts) == [b"one", None, b""]
    first, second, third = headers_of(parts)
    assert first is None and not third
    assert [tuple(header) for header in second or ()] == [("rowtide.bound", b"17"), ("x", b"")]


def test_no_headers_are_no_column(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"a"])
    assert poll_until(read(log, readers, {0: 0}), {0: 1})[0][0].headers is None


def test_every_message_comes_once_in_order_however_few_are_asked_for(
    log: Log, readers: list[PartitionReader]
) -> None:
    log.write([b"a%d" % number for number in range(500)])
    log.write([b"b%d" % number for number in range(300)], partition=1)
    given = poll_until(read(log, readers, {0: 0, 1: 0}), {0: 500, 1: 300}, max_messages=7)
    assert values_of(given[0]) == [b"a%d" % number for number in range(500)]
    assert values_of(given[1]) == [b"b%d" % number for number in range(300)]


def test_a_reader_begins_exactly_where_it_is_told_and_reads_only_what_it_is_told(
    log: Log, readers: list[PartitionReader]
) -> None:
    log.write([b"%d" % number for number in range(10)])
    log.write([b"other"], partition=1)
    reader = read(log, readers, {0: 7})
    assert values_of(poll_until(reader, {0: 10})[0]) == [b"7", b"8", b"9"]
    assert all(messages.partition == 0 for messages in reader.poll(10, 0.5))


def test_a_reader_at_the_end_waits_and_then_gives_what_arrives(
    log: Log, readers: list[PartitionReader]
) -> None:
    log.write([b"old"])
    reader = read(log, readers, {0: 1, 1: 0})
    assert values_of(reader.poll(10, 1.0)) == []
    log.write([b"new"])
    assert values_of(poll_until(reader, {0: 2})[0]) == [b"new"]


def test_a_poll_does_not_wait_to_be_full(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"only"])
    reader = read(log, readers, {0: 0})
    started = time.monotonic()
    while not values_of(reader.poll(1000, PATIENCE_S)):
        pass
    assert time.monotonic() - started < PATIENCE_S


def test_the_position_moves_over_holes_between_and_behind_messages(
    log: Log, readers: list[PartitionReader]
) -> None:
    log.write([b"a"])
    log.hole()
    log.write([b"b"])
    log.hole()
    end = ends_of(log)[0]
    given = poll_until(read(log, readers, {0: 0}), {0: end})
    assert values_of(given[0]) == [b"a", b"b"]
    offsets = np.concatenate([messages.offsets for messages in given[0]]).tolist()
    assert offsets[0] == 0
    assert offsets[1] > 1, "the hole has an offset of its own"
    assert given[0][-1].next_offset == end > offsets[1] + 1


def test_a_hole_alone_moves_the_position(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"a"])
    reader = read(log, readers, {0: 0})
    poll_until(reader, {0: 1})
    log.hole()
    end = ends_of(log)[0]
    given = poll_until(reader, {0: end})
    assert values_of(given[0]) == []
    assert given[0][-1].next_offset == end > 1
    assert len(given[0][-1].offsets) == len(given[0][-1].timestamps) == len(given[0][-1].keys) == 0


def test_a_range_is_from_what_is_left_to_the_next_offset(log: Log) -> None:
    log.write([b"a", b"b", b"c"])
    log.age_out(2)
    assert log.source().ranges() == {0: OffsetRange(2, 3), 1: OffsetRange(0, 0)}


def test_an_offset_is_found_by_time(log: Log) -> None:
    log.write([b"a", b"b", b"c", b"d"], [1_000, 3_000, 2_000, 5_000])
    source = log.source()
    at = {stamp: source.offsets_at(stamp)[0] for stamp in (-5, 0, 1_000, 1_001, 3_000, 3_001, 5_000, 5_001)}
    assert at == {-5: 0, 0: 0, 1_000: 0, 1_001: 1, 3_000: 1, 3_001: 3, 5_000: 3, 5_001: 4}
    assert source.offsets_at(0)[1] == 0


def test_a_position_that_has_aged_out_is_told(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"a", b"b", b"c"])
    log.age_out(2)
    with pytest.raises(GoneError, match="partition 0"):
        poll_until(read(log, readers, {0: 1}), {0: 3})


def test_a_position_beyond_the_end_is_told(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"a"])
    with pytest.raises(GoneError, match="partition 0"):
        poll_until(read(log, readers, {0: 5}), {0: 6})


def test_a_paused_partition_gives_nothing_and_goes_on_where_it_stood(
    log: Log, readers: list[PartitionReader]
) -> None:
    log.write([b"a%d" % number for number in range(100)])
    log.write([b"b%d" % number for number in range(100)], partition=1)
    reader = read(log, readers, {0: 0, 1: 0})
    seen: dict[int, list[bytes | None]] = {0: [], 1: []}

    def take(max_messages: int) -> None:
        for messages in reader.poll(max_messages, 0.5):
            seen[messages.partition].extend(messages.values)

    deadline = time.monotonic() + PATIENCE_S
    while not seen[0] and time.monotonic() < deadline:
        take(30)
    reader.pause([0])
    before = len(seen[0])
    while len(seen[1]) < 100 and time.monotonic() < deadline:
        take(30)
    take(30)
    assert len(seen[0]) == before
    reader.resume([0])
    while len(seen[0]) < 100 and time.monotonic() < deadline:
        take(30)
    assert seen[0] == [b"a%d" % number for number in range(100)]
    assert seen[1] == [b"b%d" % number for number in range(100)]


def test_raw_values_are_fetched_by_offset(log: Log) -> None:
    keys, headers = [b"k"] * 3000, [[("h", b"\x00")]] * 3000
    log.write([b"%d" % number for number in range(3000)], [7_000] * 3000, keys=keys, headers=headers)
    log.hole()
    log.write([None], [8_000])
    end = ends_of(log)[0]
    log.age_out(10)
    found = log.source().fetch(0, [2_999, 5, 10, 11, 2_000, 3_000, end - 1, end, end + 10])
    values = {offset: message.value for offset, message in found.items()}
    assert values == {10: b"10", 11: b"11", 2_000: b"2000", 2_999: b"2999", end - 1: None}
    assert found[10] == (7_000, b"10", b"k", [("h", b"\x00")])
    assert found[end - 1] == (8_000, None, None, None)
    assert log.source().fetch(0, []) == {}


def test_a_message_without_value_is_appended_and_read_back(log: Log, readers: list[PartitionReader]) -> None:
    log.write([b"a"])
    source = log.source()
    assert isinstance(source, WritableSource)
    headers = [("rowtide.bound", b"1700000000000"), ("rowtide.strict", b"1")]
    assert source.append(0, headers, 1_700_000_000_000) == 1
    assert source.append(1, headers[:1], 1_700_000_000_000) == 0
    given = poll_until(read(log, readers, {0: 0, 1: 0}), {0: 2, 1: 1})
    assert values_of(given[0]) == [b"a", None]
    assert headers_of(given[0]) == [None, headers]
    assert headers_of(given[1]) == [headers[:1]]
    with pytest.raises(GoneError, match="has no partition 2"):
        source.append(2, headers, 1_700_000_000_000)
    source.close()


def test_a_topic_is_not_compacted_unless_it_was_made_so(log: Log) -> None:
    assert not log.source().is_compacted()


def test_a_topic_has_an_identity_of_its_own(log: Log) -> None:
    found = log.source().identity()
    assert found
    assert log.source().identity() == found
    source = log.source()
    asked = source.ask_identity(10)
    assert source.ask_identity(10)() == asked() == asked() == found


def test_a_closed_reader_is_closed_twice_without_harm(log: Log) -> None:
    reader = log.source().reader({0: 0})
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.poll(1, 0)
