"""Several topics as one: a stream that reads them has the partitions of all of them, each under one number.

The number of a partition contains the place of its topic in the list and its number there, so it needs no table, and a
checkpoint has it as it has the partition of a stream with one topic. ``topic`` of such a source is the
list of the names, between commas. ``place_of`` returns what to show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import TypeVar

from rowtide_connectors.api import (
    Fetched,
    LoadingSource,
    Messages,
    OffsetRange,
    Option,
    PartitionReader,
    TopicSource,
    WritableSource,
)
from rowtide_connectors.errors import ConnectorError, MismatchError, OptionError

Value = TypeVar("Value")

_FIRST = 1 << 14
"""Numbers from here on are of several topics: a topic has fewer partitions. The runtime uses those from 1 << 15 on."""
_LARGEST = (1 << 15) - 1
_SLICE_S = 0.02
"""How long one reader is waited for before the others are looked at again: a longer one would delay their messages."""


TOPIC = Option(
    "topic",
    str,
    "the topic to read or to write; or several to read, separated by commas",
    "stream",
    required=True,
)
"""The option of a stream, as connectors of topics declare it that have no patterns; others see ``matching``."""


def names_in(topics: str) -> tuple[str, ...]:
    """Return the names of topics in the option ``topic``, or in ``topic`` of a source, as they are."""
    return tuple(each.strip() for each in topics.replace(";", ",").split(","))


def topics_of(text: str, owner: str) -> tuple[str, ...]:
    """Return the topics that the option ``topic`` names, between commas or semicolons.

    Raises:
      OptionError: a name is empty, or there twice.
    """
    names = names_in(text)
    if not all(names):
        raise OptionError(f'option "topic" of {owner} names an empty topic', option="topic")
    if len(set(names)) < len(names):
        raise OptionError(f'option "topic" of {owner} names a topic twice', option="topic")
    return names


def one_topic(text: str, owner: str) -> str:
    """Return the topic of a stream that is written.

    Raises:
      OptionError: there are several.
    """
    if len(topics_of(text, owner)) > 1:
        raise OptionError(
            f'option "topic" of {owner} names several topics, and pumps write to one',
            hint="Write a foreign stream and a pump for each topic.",
            option="topic",
        )
    return text.strip()


def number_of(topic: int, partition: int) -> int:
    """Return the number of a partition of the topic at this place of the list: diagonal by diagonal.

    Raises:
      MismatchError: there are too many of them.
    """
    diagonal = topic + partition
    number = _FIRST + diagonal * (diagonal + 1) // 2 + partition
    if number > _LARGEST:
        raise MismatchError(
            f"a stream of several topics cannot read partition {partition} of its topic {topic + 1}",
            hint="Together, place in the list and partition are at most 179: read the topic by a stream of its own.",
        )
    return number


def place_of(topics: str, number: int) -> tuple[str, int]:
    """Return the topic and its partition, for people. ``topics`` is that of the source, or the one topic itself."""
    if not _FIRST <= number <= _LARGEST:
        return topics, number
    at, partition = pair_of(number)
    names = names_in(topics)
    return names[at] if at < len(names) else topics, partition


def pair_of(number: int) -> tuple[int, int]:
    """Return the place of a topic and its partition, of which ``number_of`` makes this number.

    Raises:
      ValueError: it is not the number of a partition of several topics.
    """
    if not _FIRST <= number <= _LARGEST:
        raise ValueError(f"{number} is not the number of a partition of several topics")
    diagonal = (isqrt(8 * (number - _FIRST) + 1) - 1) // 2
    partition = number - _FIRST - diagonal * (diagonal + 1) // 2
    return diagonal - partition, partition


def several(sources: Sequence[TopicSource]) -> TopicSource:
    """Return the source of several topics; of one, the source itself."""
    return sources[0] if len(sources) == 1 else SeveralTopics(sources)


class SeveralTopics:
    """Topics of one technology as one source; see ``api.TopicSource``."""

    def __init__(self, sources: Sequence[TopicSource]) -> None:
        self._held: Mapping[int, TopicSource] = dict(enumerate(sources))
        """The source of each topic, by its place. It is replaced, never changed: threads share it."""

    @property
    def topic(self) -> str:
        """The names of the topics, by their places."""
        return listed(self._held)

    def topics(self) -> Sequence[TopicSource]:
        """Return the source of each topic."""
        return [source for _, source in sorted(self._known().items())]

    def number(self, topic: str, partition: int) -> int:
        """Return the number of a partition of the topic of this name, which is one of ``topics``."""
        at = next(at for at, source in self._known().items() if source.topic == topic)
        return number_of(at, partition)

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the range of every partition of all topics."""
        return _numbered({at: source.ranges() for at, source in self._known().items()})

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return the offsets at a time, by partition."""
        return _numbered({at: source.offsets_at(timestamp_ms) for at, source in self._known().items()})

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader of each topic that has one of the positions."""
        own: dict[int, dict[int, int]] = {}
        for number, position in positions.items():
            at, partition = pair_of(number)
            own.setdefault(at, {})[partition] = position
        held = self._known()
        return SeveralReaders({at: held[at].reader(given) for at, given in own.items()})

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return messages of a partition."""
        at, own = pair_of(partition)
        return self._known()[at].fetch(own, offsets)

    def append(self, partition: int, headers: Sequence[tuple[str, bytes]], timestamp_ms: int) -> int:
        """Append a message without a value to a partition; see ``api.WritableSource``."""
        at, own = pair_of(partition)
        source = self._known()[at]
        if not isinstance(source, WritableSource):
            raise MismatchError(f'messages cannot be written to topic "{source.topic}" by its connector')
        return source.append(own, headers, timestamp_ms)

    def load(self) -> None:
        """Load the code of readers; see ``api.LoadingSource``."""
        source = next(iter(self._held.values()), None)
        if isinstance(source, LoadingSource):
            source.load()

    def has_append_times(self) -> bool:
        """Return whether all brokers stamp."""
        return all(source.has_append_times() for source in self.topics())

    def identity(self) -> str | None:
        """Return the ids of all topics; None if one is unknown."""
        return _joined([source.identity() for source in self.topics()])

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Query the ids of all topics at once."""
        answers = [source.ask_identity(timeout_s) for source in self.topics()]
        return lambda: _joined([answer() for answer in answers])

    def is_compacted(self) -> bool:
        """Return whether any of them is."""
        return bool(self.compacted())

    def compacted(self) -> Sequence[str]:
        """Return the names of those that are compacted."""
        return [source.topic for source in self.topics() if source.is_compacted()]

    def close(self) -> None:
        """Release the connections of all."""
        for source in self._held.values():
            source.close()

    def _known(self) -> Mapping[int, TopicSource]:
        """Return the source of each topic, by its place."""
        return self._held


def listed(sources: Mapping[int, TopicSource]) -> str:
    """Return the names of topics by their places, as ``place_of`` reads them; a free place has an empty name."""
    places = range(max(sources, default=-1) + 1)
    return ",".join(sources[at].topic if at in sources else "" for at in places)


def _numbered(found: Mapping[int, Mapping[int, Value]]) -> dict[int, Value]:
    """Return what the topic of each place has by partition, by the numbers of the stream."""
    return {
        number_of(at, partition): value for at, held in found.items() for partition, value in held.items()
    }


def _joined(ids: Sequence[str | None]) -> str | None:
    known = [each for each in ids if each is not None]
    return ",".join(known) if len(known) == len(ids) else None


class SeveralReaders:
    """The readers of several topics as one; see ``api.PartitionReader``."""

    def __init__(self, readers: Mapping[int, PartitionReader]) -> None:
        self._readers = dict(readers)
        self._order = list(readers)
        self._error: ConnectorError | None = None

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived at any of them; another one is first at the next call."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        deadline = time.monotonic() + timeout_s
        self._order = [*self._order[1:], *self._order[:1]]
        given = self._look(max_messages, 0.0)
        while not given and self._error is None and (left := deadline - time.monotonic()) > 0:
            self._order = [*self._order[1:], *self._order[:1]]
            given = self._look(max_messages, min(_SLICE_S, left))
        if not given and self._error is not None:
            return self.poll(max_messages, timeout_s)
        return given

    def _look(self, max_messages: int, wait_s: float) -> list[Messages]:
        """Look at each once, and wait for the first. What has arrived before one fails is returned first."""
        given: list[Messages] = []
        room = max_messages
        for place, at in enumerate(self._order):
            if room <= 0:
                break
            try:
                found = self._readers[at].poll(room, 0.0 if place else wait_s)
            except ConnectorError as error:
                self._error = error
                break
            given += [replace(each, partition=number_of(at, each.partition)) for each in found]
            room -= sum(len(each.offsets) for each in found)
        return given

    def pause(self, partitions: Iterable[int]) -> None:
        """Pause partitions."""
        for at, own in self._own(partitions).items():
            self._readers[at].pause(own)

    def resume(self, partitions: Iterable[int]) -> None:
        """Resume partitions."""
        for at, own in self._own(partitions).items():
            self._readers[at].resume(own)

    def close(self) -> None:
        """Close all."""
        for reader in self._readers.values():
            reader.close()

    def _own(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in partitions:
            at, partition = pair_of(number)
            found.setdefault(at, []).append(partition)
        return found
