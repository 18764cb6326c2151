"""The contract of a message sink: what ``rowtide_connectors.api.MessageSink`` promises."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

import pytest

from rowtide.testing.contracts.source import needs
from rowtide_connectors.api import Guarantee, MessageSink, OutgoingMessage
from rowtide_connectors.errors import RefusedMessageError, UnavailableError

START = 1_700_000_000_000
"""The timestamp of message 0."""

MAX_BYTES = 100_000
"""The most bytes of a message, for ``open`` of the connector."""

Read = Sequence[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes]]]]
"""Partition, key, value, timestamp and headers of each message, by partition and in order."""


class Topic(Protocol):
    """A receiver with three empty partitions: how a test opens its sinks, and reads what was sent."""

    def open(self, sender: str) -> MessageSink:
        """Return a new sink of this sender."""

    def read(self) -> Read:
        """Return what readers of the topic see."""


class MessageSinkContract:
    """The suite. A subclass has the fixture ``topic``, and sets what its technology does not have to False."""

    guarantee: ClassVar = Guarantee.BY_COMMIT_NUMBER
    """Or ``AT_LEAST_ONCE``: the receiver stores no number, and does not refuse an earlier sink."""
    partitions: ClassVar = True
    """The receiver has partitions. Else ``Topic.read`` returns 0 for each message."""
    keys: ClassVar = True
    """Messages have keys."""
    headers: ClassVar = True
    """Messages have headers."""
    null_values: ClassVar = True
    """A message can be without a value."""
    timestamps: ClassVar = True
    """Messages have timestamps. Else ``Topic.read`` returns 0 for each message."""

    @pytest.fixture
    def topic(self) -> Topic:
        """Return a new receiver; a subclass overrides this fixture."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture topic")

    @pytest.fixture
    def sink(self, topic: Topic) -> Iterator[Callable[[], MessageSink]]:
        """Open sinks of one sender, and close them after the test."""
        opened: list[MessageSink] = []
        sender = f"p-{uuid.uuid4().hex}"

        def sink() -> MessageSink:
            opened.append(topic.open(sender))
            return opened[-1]

        yield sink
        for each in opened:
            each.close()
            each.close()

    def messages(self, first: int, last: int) -> list[OutgoingMessage]:
        """Return messages with these numbers, with a key if the technology has keys."""
        given = messages(first, last)
        return given if self.keys else [replace(each, key=None) for each in given]

    @property
    def stores_numbers(self) -> bool:
        """Whether the receiver stores the number of the last message sent."""
        return self.guarantee is not Guarantee.AT_LEAST_ONCE

    def test_messages_are_sent_in_order(self, topic: Topic, sink: Callable[[], MessageSink]) -> None:
        """Check several calls of ``send``, one of them without messages."""
        one = sink()
        one.check()
        one.begin()
        one.send((), 0)
        one.send(self.messages(1, 3), 3)
        one.send(self.messages(4, 4), 4)
        assert values(topic) == [b"v1", b"v2", b"v3", b"v4"]

    def test_the_number_is_that_of_the_last_message_sent(
        self, topic: Topic, sink: Callable[[], MessageSink]
    ) -> None:
        """Check what ``begin`` returns, for this sender and for another one."""
        one = sink()
        assert one.begin() is None
        one.send(self.messages(1, 3), 3)
        assert sink().begin() == (3 if self.stores_numbers else None)
        another = topic.open(f"p-{uuid.uuid4().hex}")
        assert another.begin() is None
        another.close()

    def test_a_message_keeps_key_timestamp_headers_and_partition(
        self, topic: Topic, sink: Callable[[], MessageSink]
    ) -> None:
        """Check all parts of messages, and that nothing else is added."""
        headers = (("x", b"1"), ("y", b"\xff")) if self.headers else ()
        key, gone = (b"key", b"gone") if self.keys else (None, None)
        deleted = None if self.null_values else b"c"
        to = (2, 1, 1) if self.partitions else (None, None, None)
        one = sink()
        one.begin()
        one.send(
            [
                OutgoingMessage(1, b"a", START, key, headers, to[0]),
                OutgoingMessage(2, b"b", START + 1, None, (), to[1]),
                OutgoingMessage(3, deleted, START + 2, gone, (), to[2]),
            ],
            3,
        )
        sent = [
            (to[0] or 0, key, b"a", START, list(headers)),
            (to[1] or 0, None, b"b", START + 1, []),
            (to[2] or 0, gone, deleted, START + 2, []),
        ]
        if not self.timestamps:
            sent = [(partition, name, value, 0, extra) for partition, name, value, _, extra in sent]
        assert list(topic.read()) == sorted(sent, key=lambda each: each[0])

    def test_messages_of_one_key_are_in_one_partition_in_order(
        self, topic: Topic, sink: Callable[[], MessageSink]
    ) -> None:
        """Check that keys choose partitions, and that more than one is used."""
        needs(self.keys and self.partitions, "partitions by key")
        one = sink()
        one.begin()
        sent = [OutgoingMessage(at, b"%d" % at, START + at, b"k%d" % (at % 7)) for at in range(1, 101)]
        one.send(sent, 100)
        found = topic.read()
        assert len({partition for partition, *_ in found}) > 1
        for key in {each.key for each in sent}:
            own = [(partition, value) for partition, read, value, _, _ in found if read == key]
            assert len({partition for partition, _ in own}) == 1
            assert [value for _, value in own] == [each.value for each in sent if each.key == key]

    def test_a_sink_sends_nothing_after_another_has_taken_over(
        self, topic: Topic, sink: Callable[[], MessageSink]
    ) -> None:
        """Check that a message is not sent twice when two processes send for one pipeline."""
        needs(self.stores_numbers, "number of the last message sent")
        older = sink()
        older.begin()
        older.send(self.messages(1, 2), 2)
        newer = sink()
        assert newer.begin() == 2
        with pytest.raises(UnavailableError):
            older.send(self.messages(3, 4), 4)
        newer.send(self.messages(3, 3), 3)
        assert values(topic) == [b"v1", b"v2", b"v3"]
        assert older.begin() == 3
        older.send(self.messages(4, 4), 4)
        with pytest.raises(UnavailableError):
            newer.send(self.messages(4, 4), 4)
        assert values(topic) == [b"v1", b"v2", b"v3", b"v4"]

    def test_a_message_for_an_unknown_partition_is_named_and_nothing_is_sent(
        self, topic: Topic, sink: Callable[[], MessageSink]
    ) -> None:
        """Check ``RefusedMessageError``."""
        needs(self.partitions, "partitions")
        one = sink()
        one.begin()
        given = [*self.messages(1, 2), OutgoingMessage(3, b"x", START, partition=9)]
        with pytest.raises(RefusedMessageError) as caught:
            one.send(given, 3)
        assert caught.value.number == 3
        assert one.begin() is None
        assert values(topic) == []


def messages(first: int, last: int) -> list[OutgoingMessage]:
    """Return messages with these numbers and one key, which are in one partition."""
    return [
        OutgoingMessage(number, b"v%d" % number, START + number, b"k") for number in range(first, last + 1)
    ]


def values(topic: Topic) -> list[bytes | None]:
    """Return the values that were sent, by partition and in order."""
    return [value for _, _, value, _, _ in topic.read()]
