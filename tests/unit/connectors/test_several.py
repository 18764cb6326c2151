"""Several topics as one source: the numbers of their partitions, and readers that take turns."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence

import pytest

from rowtide.operators.contract import RESUBMITTED
from rowtide_connectors.api import Messages
from rowtide_connectors.errors import GoneError, MismatchError, OptionError, UnavailableError
from rowtide_connectors.kafka.client import open_consumer
from rowtide_connectors.kafka.connector import client_config, read_server
from rowtide_connectors.kafka.source import shared_by
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.several import SeveralReaders, number_of, one_topic, place_of, several, topics_of

NAMES = ",".join(f"t{at}" for at in range(180))


def test_each_partition_has_one_number_that_no_other_has() -> None:
    numbers = {
        number_of(topic, partition): (f"t{topic}", partition)
        for topic in range(180)
        for partition in range(180 - topic)
    }
    assert len(numbers) == 180 * 181 // 2
    assert min(numbers) == 1 << 14
    assert max(numbers) < RESUBMITTED
    assert {number: place_of(NAMES, number) for number in numbers} == numbers


def test_numbers_of_one_topic_are_its_own() -> None:
    assert place_of("t", 0) == ("t", 0)
    assert place_of("t", 5_000) == ("t", 5_000)
    assert place_of("t", RESUBMITTED + 3) == ("t", RESUBMITTED + 3)
    # The topic of a committed position is that of its partition.
    assert place_of("t7", number_of(7, 3)) == ("t7", 3)
    assert place_of("t0", number_of(0, 3)) == ("t0", 3)


def test_too_many_are_refused() -> None:
    with pytest.raises(MismatchError, match="cannot read partition 100 of its topic 81"):
        number_of(80, 100)


def test_names_are_between_commas_or_semicolons() -> None:
    assert topics_of("a; b,c", "x") == ("a", "b", "c")
    assert one_topic(" a ", "x") == "a"
    for wrong in ("a,", "a,b,a"):
        with pytest.raises(OptionError):
            topics_of(wrong, "x")


def test_readers_take_turns_and_a_failure_loses_no_message() -> None:
    broker = memory_broker(uuid.uuid4().hex)
    for topic in ("a", "b"):
        broker.create_topic(topic, 2)
    source = several([MemorySource(broker, topic) for topic in ("a", "b")])
    broker.produce("a", [b"1", b"2"], timestamps=[1, 2], partition=1)
    broker.produce("b", [b"3"], timestamps=[3], partition=0)
    a, b = number_of(0, 1), number_of(1, 0)
    assert {number: held.end for number, held in source.ranges().items() if held.end} == {a: 2, b: 1}
    assert source.offsets_at(2)[a] == 1
    assert source.fetch(b, [0])[0].value == b"3"
    reader = source.reader({a: 0, b: 0})
    found = {
        each.partition: (each.topic, list(each.values)) for _ in range(4) for each in reader.poll(10, 0.2)
    }
    assert found == {a: ("a", [b"1", b"2"]), b: ("b", [b"3"])}
    assert list(reader.poll(10, 0.01)) == []
    reader.pause([a])
    broker.produce("a", [b"4"], timestamps=[4], partition=1)
    assert list(reader.poll(10, 0.05)) == []
    reader.resume([a])
    assert [list(each.values) for each in reader.poll(10, 1.0)] == [[b"4"]]
    broker.delete_topic("a")
    broker.produce("b", [b"5"], timestamps=[5], partition=0)
    values: list[bytes | None] = []
    failures = 0
    for _ in range(6):
        try:
            values += [value for each in reader.poll(10, 0.05) for value in each.values]
        except (GoneError, UnavailableError):
            failures += 1
    assert values == [b"5"]
    assert failures
    reader.close()
    source.close()


class SilentReader:
    """A reader to which nothing comes."""

    def __init__(self) -> None:
        self.looks = 0

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        self.looks += 1
        time.sleep(timeout_s)
        return ()

    def pause(self, partitions: Iterable[int]) -> None:
        """Do nothing."""

    def resume(self, partitions: Iterable[int]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def test_many_silent_topics_are_looked_at_a_few_times() -> None:
    readers = {at: SilentReader() for at in range(50)}
    reader = SeveralReaders(readers)
    assert list(reader.poll(10, 0.1)) == []
    # Once, and then at most every 20 ms.
    assert max(each.looks for each in readers.values()) <= 7
    assert min(each.looks for each in readers.values()) >= 1


@pytest.mark.parametrize("topics", [1, 2, 9, 50, 180])
def test_readers_of_many_topics_share_buffers_that_the_client_takes(topics: int) -> None:
    config = client_config(read_server({"bootstrap_servers": "127.0.0.1:9"}))
    shared = shared_by(config, topics)
    open_consumer(shared).close()
    assert int(str(shared["queued.max.messages.kbytes"])) <= max(65_536 // topics, 1_024)
