"""The topics that an engine in this process reads, without a checkpoint: each from a position of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from rowtide.embedded.events import ResultColumns, ResultRow
from rowtide.errors import BoundRegressionError
from rowtide.flow.flow import Emitted, Flow
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.rows.bytes_text import bytes_text
from rowtide.rows.types import BIGINT, VARCHAR
from rowtide.runtime.ingest.channels import channel
from rowtide.runtime.ingest.intake import POLL_MESSAGES, ExplicitBound
from rowtide.runtime.pipeline import open_for_query
from rowtide.runtime.recovery.begin import Begin, first_offsets
from rowtide_connectors.api import Fetched, Messages, OffsetRange
from rowtide_connectors.several import place_of

POLL_S = 0.2
"""How long to wait for one topic, so that several topics alternate and Ctrl-C takes effect."""

MESSAGE_COLUMNS = ResultColumns(
    ("TOPIC", "PARTITION", "OFFSET", "KEY", "VALUE"),
    tuple(map(str, (VARCHAR, BIGINT, BIGINT, VARCHAR, VARCHAR))),
    changes=False,
)
"""The columns of messages; their timestamps are in place of a ROWTIME."""
Ends = Mapping[str, Mapping[int, OffsetRange]]
"""The offsets that each partition of each stream has."""


class TopicReading:
    """The topics of foreign streams of one plan; ``close`` releases their connections.

    ``streams`` are read from ``begin`` on; each call of ``read`` continues where the last one ended.
    """

    def __init__(self, plan: Plan, streams: Iterable[ForeignStream], begin: Begin) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._begin = begin
        self._sources = {name: open_for_query(plan, stream) for name, stream in self._streams.items()}
        self._positions: dict[str, dict[int, int]] = {}

    def __contains__(self, relation: str) -> bool:
        return relation in self._streams

    def ends(self) -> Ends:
        """Return the offsets of all partitions, as they are now."""
        return {name: source.ranges() for name, source in self._sources.items()}

    def read(
        self, flow: Flow, ends: Ends | None, stopping: Callable[[], bool] = lambda: False
    ) -> Iterator[Emitted]:
        """Insert messages into ``flow``, and yield what comes out; the faults of decoding come by themselves.

        It stops at ``ends``, or once ``stopping`` returns True; it stops at once if there are no topics.
        """
        channels = {
            name: channel(stream, self._sources[name], flow) for name, stream in self._streams.items()
        }
        for read in self.messages(ends, stopping):
            if read is None:
                yield flow.drain()
                continue
            name, messages = read
            delivery = channels[name].deliver(messages)
            for part in delivery.parts:
                if isinstance(part, ExplicitBound):
                    with suppress(BoundRegressionError):
                        flow.bound(name, messages.partition, part.bound)
                else:
                    flow.insert(name, messages.partition, part)
            yield Emitted({}, list(delivery.faults))

    def messages(
        self, ends: Ends | None, stopping: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, Messages] | None]:
        """Yield the messages of each relation as they are, and None after a turn to all topics; it ends as ``read``."""
        for name, source in self._sources.items():
            if name not in self._positions:
                self._positions[name] = dict(first_offsets(source, self._begin))
        readers = {name: source.reader(self._positions[name]) for name, source in self._sources.items()}
        try:
            while readers and not stopping():
                if ends is not None and self._has_reached(ends):
                    return
                for name, reader in readers.items():
                    for messages in reader.poll(POLL_MESSAGES, POLL_S):
                        self._positions[name][messages.partition] = messages.next_offset
                        yield name, messages
                yield None
        finally:
            for reader in readers.values():
                reader.close()

    def fetch(self, relation: str, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return messages that were read, by offset, without those that the topic no longer has."""
        return self._sources[relation].fetch(partition, offsets)

    def close(self) -> None:
        """Release every connection."""
        for source in self._sources.values():
            source.close()

    def _has_reached(self, ends: Ends) -> bool:
        return all(
            self._positions[name][partition] >= held.end
            for name, partitions in ends.items()
            for partition, held in partitions.items()
            if partition in self._positions[name]
        )


def message_rows(messages: Messages) -> Iterator[ResultRow]:
    """Yield messages as they are: their place, key and value, as text or in hexadecimal."""
    topic, partition = place_of(messages.topic, messages.partition)
    columns = (messages.offsets.tolist(), messages.timestamps.tolist(), messages.keys, messages.values)
    for offset, timestamp, key, value in zip(*columns, strict=True):
        shown = [None if each is None else bytes_text(each) for each in (key, value)]
        yield ResultRow("+", timestamp, [topic, partition, offset, *shown])
