"""Topics behind a network: each request is a call of a process, and brokers fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader, TopicSource
from rowtide_connectors.errors import UnavailableError

Result = TypeVar("Result")


class BrokerClient(Protocol):
    """A process, as its connections to the broker see it."""

    def call(self, name: str, action: Callable[[], Result], breaks: Callable[[], None]) -> Result:
        """Make a call: ``action`` does it, ``breaks`` raises what a broken connection raises."""


class SimulatedTopic:
    """A topic as ``client`` sees it; see ``api.TopicSource``."""

    def __init__(self, source: TopicSource, client: BrokerClient) -> None:
        self._source = source
        self._client = client
        self.topic = source.topic

    def ranges(self) -> Mapping[int, OffsetRange]:
        return self._call("ranges", self._source.ranges)

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        return self._call("offsets", lambda: self._source.offsets_at(timestamp_ms))

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        return _SimulatedReader(self._source.reader(positions), self._call)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        return self._call("fetch", lambda: self._source.fetch(partition, offsets))

    def has_append_times(self) -> bool:
        return self._call("append times", self._source.has_append_times)

    def identity(self) -> str | None:
        return self._call("identity", self._source.identity)

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        answer = self._call("ask identity", lambda: self._source.ask_identity(timeout_s))
        return lambda: self._call("identity answer", answer)

    def is_compacted(self) -> bool:
        return self._call("is compacted", self._source.is_compacted)

    def close(self) -> None:
        self._source.close()

    def _call(self, name: str, action: Callable[[], Result]) -> Result:
        return self._client.call(f"broker: {name} {self.topic}", action, self._break)

    def _break(self) -> None:
        raise UnavailableError(f'topic "{self.topic}": the connection is lost')


class _Calls(Protocol):
    def __call__(self, name: str, action: Callable[[], Result]) -> Result: ...


class _SimulatedReader:
    """A reader of a ``SimulatedTopic``; see ``api.PartitionReader``. A lost reply loses its messages."""

    def __init__(self, reader: PartitionReader, call: _Calls) -> None:
        self._reader = reader
        self._call = call

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        return self._call("poll", lambda: self._reader.poll(max_messages, timeout_s))

    def pause(self, partitions: Iterable[int]) -> None:
        self._reader.pause(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        self._reader.resume(partitions)

    def close(self) -> None:
        self._reader.close()
