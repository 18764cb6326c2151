"""The contract of a source: what ``rowtide_connectors.api.TopicSource`` and ``PartitionReader`` promise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

import numpy as np
import pytest

from rowtide_connectors.api import Messages, OffsetRange, PartitionReader, TopicSource, WritableSource
from rowtide_connectors.errors import GoneError

PATIENCE_S = 30.0
"""The longest time that a test waits for messages."""

Headers = Sequence[tuple[str, bytes]]


class Log(Protocol):
    """A topic with two empty partitions, 0 and 1: how a test writes to it, and its source."""

    topic: str

    def source(self) -> TopicSource:
        """Return a source of the topic."""

    def write(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        *,
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Append messages to a partition. Without timestamps, each message has the same one."""

    def hole(self) -> None:
        """Leave at least one offset of partition 0 without a message."""

    def transaction(self, values: Sequence[bytes]) -> AbstractContextManager[object]:
        """Append messages to partition 0, in a transaction that is open within the block and then commits."""

    def age_out(self, before: int) -> None:
        """Delete the messages of partition 0 below offset ``before``."""

    def add_partition(self) -> None:
        """Add partition 2."""


class SourceContract:
    """The suite. A subclass has the fixture ``log``, and sets what its technology does not have to False."""

    keys: ClassVar = True
    """Messages have keys."""
    headers: ClassVar = True
    """Messages have headers."""
    null_values: ClassVar = True
    """A message can be without a value."""
    timestamps: ClassVar = True
    """The writer sets the timestamp of a message. Else ``Log.write`` ignores timestamps."""
    holes: ClassVar = True
    """There may be offsets without a message."""
    transactions: ClassVar = True
    """Messages may be kept back until a transaction ends."""
    retention: ClassVar = True
    """Old messages may be deleted."""
    growing: ClassVar = True
    """A topic may get more partitions."""
    identities: ClassVar = True
    """``identity`` is known."""
    writable: ClassVar = True
    """The source is a ``WritableSource``."""

    @pytest.fixture
    def log(self) -> Log:
        """Return a new topic; a subclass overrides this fixture."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture log")

    @pytest.fixture
    def readers(self) -> Iterator[list[PartitionReader]]:
        """Close the readers that a test opens."""
        opened: list[PartitionReader] = []
        yield opened
        for reader in opened:
            reader.close()

    def test_messages_arrive_as_they_were_written(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check values, keys, timestamps and headers."""
        values = [b"one", None if self.null_values else b"two", b""]
        stamps = [5_000, 4_000, 2_000_000_000_000]
        keys = [None, b"k", b""] if self.keys else None
        headers = [None, [("rowtide.bound", b"17"), ("x", b"")], None] if self.headers else None
        log.write(values, stamps, keys=keys, headers=headers)
        parts = read_all(log, readers)[0]
        for messages in parts:
            assert messages.topic == log.topic
            assert messages.offsets.dtype == messages.timestamps.dtype == np.int64
        offsets = offsets_of(parts)
        assert len(offsets) == len(values)
        assert log.source().ranges()[0].earliest <= offsets[0] < offsets[1] < offsets[2]
        if self.timestamps:
            assert [int(at) for messages in parts for at in messages.timestamps] == stamps
        assert [key for messages in parts for key in messages.keys] == (keys or [None] * 3)
        assert values_of(parts) == values
        first, second, third = headers_of(parts)
        assert not first
        assert not third
        assert [tuple(header) for header in second or ()] == ([] if headers is None else headers[1])

    def test_messages_without_headers_have_no_column_of_them(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check that ``headers`` is None."""
        log.write([b"a"])
        assert read_all(log, readers)[0][0].headers is None

    def test_every_message_arrives_once_in_order_however_few_a_poll_returns(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check two partitions in polls of at most 7 messages."""
        log.write([b"a%d" % number for number in range(500)])
        log.write([b"b%d" % number for number in range(300)], partition=1)
        given = read_all(log, readers, max_messages=7)
        assert values_of(given[0]) == [b"a%d" % number for number in range(500)]
        assert values_of(given[1]) == [b"b%d" % number for number in range(300)]

    def test_a_reader_begins_at_its_positions_and_reads_only_their_partitions(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check a reader that begins in the middle, at each message and where another reader ended."""
        log.write([b"%d" % number for number in range(10)])
        log.write([b"other"], partition=1)
        end = ends_of(log)[0]
        offsets = offsets_of(read_all(log, readers)[0])
        reader = read(log, readers, {0: offsets[7]})
        assert values_of(poll_until(reader, {0: end})[0]) == [b"7", b"8", b"9"]
        assert all(messages.partition == 0 for messages in reader.poll(10, 0.5))
        first = poll_until(read(log, readers, {0: offsets[0]}), {0: offsets[4]}, max_messages=1)[0]
        rest = poll_until(read(log, readers, {0: first[-1].next_offset}), {0: end})[0]
        assert values_of([*first, *rest]) == [b"%d" % number for number in range(10)]

    def test_a_reader_at_the_end_waits_and_then_returns_what_arrives(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check a message that is written while a reader is open."""
        log.write([b"old"])
        ranges = log.source().ranges()
        reader = read(log, readers, {0: ranges[0].end, 1: ranges[1].earliest})
        assert values_of(reader.poll(10, 1.0)) == []
        log.write([b"new"])
        assert values_of(poll_until(reader, {0: ends_of(log)[0]})[0]) == [b"new"]

    def test_a_poll_does_not_wait_until_it_is_full(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check that one message of many is returned at once."""
        log.write([b"only"])
        reader = read(log, readers, {0: log.source().ranges()[0].earliest})
        started = time.monotonic()
        while not values_of(reader.poll(1000, PATIENCE_S)):
            pass
        assert time.monotonic() - started < PATIENCE_S

    def test_the_position_moves_over_holes_between_and_after_messages(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check ``next_offset`` with a hole between two messages, and one at the end."""
        needs(self.holes, "holes")
        log.write([b"a"])
        log.hole()
        log.write([b"b"])
        log.hole()
        end = ends_of(log)[0]
        parts = read_all(log, readers)[0]
        assert values_of(parts) == [b"a", b"b"]
        offsets = offsets_of(parts)
        assert offsets[1] > offsets[0] + 1, "the hole has an offset of its own"
        assert parts[-1].next_offset == end > offsets[1] + 1

    def test_a_hole_alone_moves_the_position(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check the messages that a hole at the end makes: none, with a new position."""
        needs(self.holes, "holes")
        log.write([b"a"])
        before = ends_of(log)[0]
        reader = read(log, readers, {0: log.source().ranges()[0].earliest})
        poll_until(reader, {0: before})
        log.hole()
        end = ends_of(log)[0]
        given = poll_until(reader, {0: end})
        assert values_of(given[0]) == []
        assert given[0][-1].next_offset == end > before
        assert len(given[0][-1].offsets) == len(given[0][-1].timestamps) == len(given[0][-1].keys) == 0

    def test_a_range_is_from_the_first_message_that_is_left_to_the_next_offset(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check the ranges of an empty partition, of one with messages, and after messages are deleted."""
        empty = log.source().ranges()[1]
        assert empty.earliest == empty.end
        log.write([b"a", b"b", b"c"])
        parts = read_all(log, readers)[0]
        offsets, end = offsets_of(parts), parts[-1].next_offset
        assert log.source().ranges() == {0: OffsetRange(offsets[0], end), 1: empty}
        needs(self.retention, "retention")
        log.age_out(offsets[2])
        assert log.source().ranges() == {0: OffsetRange(offsets[2], end), 1: empty}

    def test_an_open_transaction_keeps_messages_from_readers_but_is_in_the_log(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check ranges, a reader at the end and an offset by time while a transaction is open, and after it."""
        needs(self.transactions, "transactions")
        log.write([b"before"])
        source = log.source()
        before = source.ranges()
        reader = read(log, readers, {0: before[0].end})
        with log.transaction([b"within"]):
            log.write([b"of another writer"])
            during = source.ranges()
            assert (during[0].end, during[1]) == (before[0].end, before[1])
            assert during[0].log_end == during[0].end + during[0].uncommitted > before[0].log_end + 1
            assert source.offsets_at(2_000_000_000_000)[0] == before[0].end
            assert values_of(reader.poll(10, 0.5)) == []
        given: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(given) < 2 and time.monotonic() < deadline:
            given += values_of(reader.poll(10, 0.5))
        assert given == [b"within", b"of another writer"]
        after = source.ranges()[0]
        assert after.end == after.log_end >= during[0].log_end

    def test_an_offset_is_found_by_time(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check the first offset with a time or a later one, where times are not in order."""
        needs(self.timestamps, "timestamps of writers")
        log.write([b"a", b"b", b"c", b"d"], [1_000, 3_000, 2_000, 5_000])
        a, b, _, d = offsets_of(read_all(log, readers)[0])
        source, end = log.source(), ends_of(log)[0]
        stamps = (-5, 0, 1_000, 1_001, 3_000, 3_001, 5_000, 5_001)
        at = {stamp: source.offsets_at(stamp)[0] for stamp in stamps}
        assert at == {-5: a, 0: a, 1_000: a, 1_001: b, 3_000: b, 3_001: d, 5_000: d, 5_001: end}
        assert source.offsets_at(0)[1] == source.ranges()[1].end

    def test_a_position_below_the_log_is_an_error(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check that messages which are deleted before they are read do not vanish silently."""
        needs(self.retention, "retention")
        log.write([b"a", b"b", b"c"])
        offsets = offsets_of(read_all(log, readers)[0])
        log.age_out(offsets[2])
        with pytest.raises(GoneError, match="partition 0"):
            poll_until(read(log, readers, {0: offsets[1]}), {0: ends_of(log)[0]})

    def test_a_position_beyond_the_end_is_an_error(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check that a log which lost its end is not taken for a quiet one."""
        log.write([b"a"])
        end = ends_of(log)[0]
        with pytest.raises(GoneError, match="partition 0"):
            poll_until(read(log, readers, {0: end + 4}), {0: end + 5})

    def test_a_paused_partition_returns_nothing_and_resumes_at_its_position(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check that a pause loses and repeats no message."""
        log.write([b"a%d" % number for number in range(100)])
        log.write([b"b%d" % number for number in range(100)], partition=1)
        reader = read(log, readers, starts_of(log))
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

    def test_messages_are_fetched_by_their_offsets(self, log: Log, readers: list[PartitionReader]) -> None:
        """Check fetches in any order, of offsets with and without a message, and of deleted ones."""
        keys = [b"k"] * 3000 if self.keys else None
        headers = [[("h", b"\x00")]] * 3000 if self.headers else None
        log.write([b"%d" % number for number in range(3000)], [7_000] * 3000, keys=keys, headers=headers)
        if self.holes:
            log.hole()
        last = None if self.null_values else b"last"
        log.write([last], [8_000])
        offsets, end = offsets_of(read_all(log, readers)[0]), ends_of(log)[0]
        if self.retention:
            log.age_out(offsets[10])
        wanted = [offsets[at] for at in (2_999, 10, 11, 2_000, 3_000)]
        found = log.source().fetch(0, [*wanted, *([offsets[5]] if self.retention else []), end, end + 10])
        values = {offset: message.value for offset, message in found.items()}
        expected: dict[int, bytes | None] = {offsets[at]: b"%d" % at for at in (10, 11, 2_000, 2_999)}
        assert values == expected | {offsets[3_000]: last}
        one, other = found[offsets[10]], found[offsets[3_000]]
        assert (one.key, other.key) == (b"k" if self.keys else None, None)
        assert (one.headers, other.headers) == ([("h", b"\x00")] if self.headers else None, None)
        if self.timestamps:
            assert (one.timestamp, other.timestamp) == (7_000, 8_000)
        assert log.source().fetch(0, []) == {}

    def test_a_message_without_value_is_appended_and_read_back(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check ``WritableSource.append``, which ``rowtide bound`` uses."""
        source = log.source()
        assert isinstance(source, WritableSource) is self.writable
        needs(self.writable, "appended notes")
        assert isinstance(source, WritableSource)
        log.write([b"a"])
        headers = [("rowtide.bound", b"1700000000000"), ("rowtide.strict", b"1")]
        appended = (
            source.append(0, headers, 1_700_000_000_000),
            source.append(1, headers[:1], 1_700_000_000_000),
        )
        given = read_all(log, readers)
        assert (offsets_of(given[0])[1], offsets_of(given[1])[0]) == appended
        assert values_of(given[0]) == [b"a", None]
        assert headers_of(given[0]) == [None, headers]
        assert headers_of(given[1]) == [headers[:1]]
        with pytest.raises(GoneError, match="has no partition 2"):
            source.append(2, headers, 1_700_000_000_000)
        source.close()

    def test_a_new_topic_is_not_compacted(self, log: Log) -> None:
        """Check ``is_compacted``."""
        assert not log.source().is_compacted()

    def test_a_topic_has_an_identity(self, log: Log) -> None:
        """Check that all sources of a topic return one identity, at once and later."""
        found = log.source().identity()
        assert bool(found) is self.identities
        assert log.source().identity() == found
        source = log.source()
        asked = source.ask_identity(10)
        assert source.ask_identity(10)() == asked() == asked() == found

    def test_a_partition_that_is_added_later_is_found_and_read(
        self, log: Log, readers: list[PartitionReader]
    ) -> None:
        """Check ``ranges``, ``offsets_at`` and a reader of a source that has known the topic without it."""
        needs(self.growing, "partitions that are added")
        log.write([b"a"])
        source = log.source()
        assert sorted(source.ranges()) == sorted(source.offsets_at(0)) == [0, 1]
        log.add_partition()
        log.write([b"b", b"c"], partition=2)
        # Once known it stays known, with all that was written: brokers take a moment to tell all of them.
        deadline = time.monotonic() + PATIENCE_S
        while 2 not in (found := source.ranges()) or found[2].end == found[2].earliest:
            assert time.monotonic() < deadline, f"{found} have no new partition"
        assert sorted(found) == sorted(source.ranges()) == sorted(source.offsets_at(0)) == [0, 1, 2]
        reader = source.reader({2: found[2].earliest})
        readers.append(reader)
        assert values_of(poll_until(reader, {2: found[2].end})[2]) == [b"b", b"c"]

    def test_a_reader_can_be_closed_twice(self, log: Log) -> None:
        """Check that a closed reader is not polled."""
        reader = log.source().reader(starts_of(log))
        reader.close()
        reader.close()
        with pytest.raises(ValueError, match="closed"):
            reader.poll(1, 0)

    def test_a_source_can_be_closed_twice(self, log: Log) -> None:
        """Check ``close``."""
        source = log.source()
        source.ranges()
        source.close()
        source.close()


def needs(has: bool, what: str) -> None:
    """Skip a test if the technology does not have ``what``."""
    if not has:
        pytest.skip(f"the technology has no {what}")


def read(log: Log, readers: list[PartitionReader], positions: Mapping[int, int]) -> PartitionReader:
    """Open a reader, which is closed after the test."""
    reader = log.source().reader(positions)
    readers.append(reader)
    return reader


def read_all(log: Log, readers: list[PartitionReader], max_messages: int = 1000) -> dict[int, list[Messages]]:
    """Return all messages of the log, by partition."""
    starts = starts_of(log)
    return poll_until(read(log, readers, starts), ends_of(log), max_messages, starts)


def poll_until(
    reader: PartitionReader,
    ends: Mapping[int, int],
    max_messages: int = 1000,
    starts: Mapping[int, int] | None = None,
) -> dict[int, list[Messages]]:
    """Poll until every partition has reached its end; return what arrived, by partition.

    A partition that begins at its end is one of ``starts``; nothing arrives from it.
    """
    given: dict[int, list[Messages]] = {partition: [] for partition in ends}
    reached = dict.fromkeys(ends, -1) | dict(starts or {})
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
    """Return the values of messages in order."""
    return [value for messages in parts for value in messages.values]


def offsets_of(parts: Sequence[Messages]) -> list[int]:
    """Return the offsets of messages in order."""
    return [int(offset) for messages in parts for offset in messages.offsets]


def headers_of(parts: Sequence[Messages]) -> list[Headers | None]:
    """Return the headers of each message in order."""
    return [one for messages in parts for one in messages.headers or [None] * len(messages.values)]


def ends_of(log: Log) -> dict[int, int]:
    """Return the end of each partition."""
    return {partition: held.end for partition, held in log.source().ranges().items()}


def starts_of(log: Log) -> dict[int, int]:
    """Return the first offset of each partition."""
    return {partition: held.earliest for partition, held in log.source().ranges().items()}
