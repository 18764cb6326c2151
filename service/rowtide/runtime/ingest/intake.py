"""Reads, decodes and delivers the messages of a topic, partition by partition.

A ``StreamReader`` belongs to one foreign stream and one thread, and returns the
result of a poll as deliveries. ``DirectInbox`` polls in the caller's thread, for
tests and simulations; ``runtime.ingest.inbox`` has one thread per stream.

A message becomes a row of its partition (rowtime: the message's timestamp;
counter: its offset), an explicit bound, or a fault; none is skipped. One
whose timestamp is before 1970 or after 9999 is a fault and moves no bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rowtide.clock import Clock
from rowtide.codec.contract import ChangeDecoder, Decoded, Decoder
from rowtide.codec.pseudo import pseudo_columns
from rowtide.codec.registries import OF_KEY, OF_VALUE, with_headers
from rowtide.errors import Reason, StatementError
from rowtide.operators.contract import Fault
from rowtide.plan.plan import ForeignStream
from rowtide.rows.column import Column, Indices
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.rowtime.bound import Bound
from rowtide.runtime.crashpoints import CrashPoints
from rowtide_connectors.api import Messages, OffsetRange, PartitionReader, TopicSource
from rowtide_connectors.several import place_of

BOUND_HEADER = "rowtide.bound"
STRICT_HEADER = "rowtide.strict"
"""Headers of a bound record: ms UTC as ASCII integer; 1 for a strict bound.

See docs/sql/semantics.md#explicit-bounds.
"""

POLL_MESSAGES = 10_000
"""Maximum messages of one poll. Trays of about this size are fastest under load."""
POLL_BYTES = 4 * 1024 * 1024
"""Approximate maximum bytes of values of one poll. They are copied several times during decoding."""
PRESUMED_BYTES = 1024
"""Assumed size of a message before the first one arrives."""
LOOK_UP_S = 5.0
"""Interval of look-ups of the ends of partitions. Rows of a new partition are late if the others
advance meanwhile, and an older lag is useless."""

_NOTHING: frozenset[int] = frozenset()

LookedUp = Callable[[str, Mapping[int, OffsetRange]], None]
"""Receives the ends of the partitions of a relation. Called by reading threads."""


@dataclass(frozen=True, slots=True)
class ExplicitBound:
    """A bound record: its bound, and its place in the log."""

    bound: Bound
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """The result of one poll of one partition, ready for the flow.

    ``parts`` are trays and explicit bounds in log order. ``messages`` are their messages, for the
    raw bytes of error rows. After it the partition is at ``next_offset``.
    """

    relation: str
    partition: int
    parts: tuple[Tray | ExplicitBound, ...]
    faults: tuple[Fault, ...]
    messages: Messages
    raw_bytes: int

    @property
    def next_offset(self) -> int:
        """The position after this delivery."""
        return self.messages.next_offset

    def __len__(self) -> int:
        return len(self.messages.offsets)


@dataclass(frozen=True, slots=True)
class Channel:
    """How messages of one foreign stream become rows."""

    stream: ForeignStream
    source: TopicSource
    decoder: Decoder
    origins: Mapping[int, int]
    """The origin of the rows of each partition."""
    skipped: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """The offsets of each partition that committed decisions skip."""

    @property
    def relation(self) -> str:
        """The foreign stream's name."""
        return self.stream.name

    def deliver(self, messages: Messages) -> Delivery:
        """Decode messages of one partition."""
        skipped = self.skipped.get(messages.partition, _NOTHING)
        return deliver(self.stream, self.decoder, self.origins[messages.partition], messages, skipped)


def deliver(
    stream: ForeignStream,
    decoder: Decoder,
    origin: int,
    messages: Messages,
    skipped: frozenset[int] = _NOTHING,
) -> Delivery:
    """Make rows, bounds and faults of messages of one partition. The rows have origin ``origin``.

    Messages at the offsets ``skipped`` are not decoded: they are faults.
    """
    relation = stream.name
    marks = _bound_records(relation, origin, messages)
    values = messages.values
    for index in _places_of(skipped, messages):
        values = [*values[:index], None, *values[index + 1 :]]
        marks[index] = Fault(
            relation,
            Reason.SKIPPED,
            "by `rowtide positions skip`",
            int(messages.timestamps[index]),
            origin,
            int(messages.offsets[index]),
        )
    if messages.damaged:
        values = [None if index in messages.damaged else value for index, value in enumerate(values)]
        for index, why in messages.damaged.items():
            marks[index] = Fault(
                relation,
                Reason.DECODE,
                why,
                int(messages.timestamps[index]),
                origin,
                int(messages.offsets[index]),
            )
    options = dict(stream.options)
    decoded = decoded_by(
        decoder,
        with_headers(options, values, messages.headers, OF_VALUE),
        with_headers(options, messages.keys, messages.headers, OF_KEY),
    )
    faults = [mark for mark in marks.values() if isinstance(mark, Fault)]
    untimed = _untimed(relation, origin, messages, marks.keys())
    faults += untimed.values()
    faults += [
        Fault(
            relation,
            fault.reason,
            fault.message,
            int(messages.timestamps[fault.index]),
            origin,
            int(messages.offsets[fault.index]),
        )
        for fault in decoded.faults
        if fault.index not in marks and fault.index not in untimed
    ]
    faults.sort(key=lambda fault: fault.counter)
    accepted = decoded.accepted
    tray = Tray.from_columns(
        stream.source_type,
        decoded.columns + _pseudo(stream, messages, accepted),
        messages.timestamps[accepted],
        origin,
        messages.offsets[accepted],
        decoded.opcodes,
    )
    if untimed or marks:
        wanted = ~np.isin(accepted, [*untimed, *marks])
        tray, accepted = tray.where(wanted), accepted[wanted]
    bounds = {index: mark for index, mark in marks.items() if isinstance(mark, ExplicitBound)}
    raw_bytes = sum(map(len, filter(None, messages.values)))
    parts = _in_log_order(tray, accepted, bounds)
    return Delivery(relation, messages.partition, parts, tuple(faults), messages, raw_bytes)


def decoded_by(decoder: Decoder, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
    """Decode messages; for a topic that fills a table, with their keys."""
    if isinstance(decoder, ChangeDecoder):
        return decoder.decode_changes(values, keys)
    return decoder.decode(values)


def _untimed(relation: str, origin: int, messages: Messages, marks: Collection[int]) -> dict[int, Fault]:
    """Return the faults, by position, of messages with an invalid timestamp, which would become a bound."""
    times = messages.timestamps
    return {
        index: not_a_time(relation, int(times[index]), origin, int(messages.offsets[index]))
        for index in np.flatnonzero((times < 0) | (times > MAX_TIMESTAMP_MS)).tolist()
        if index not in marks
    }


def not_a_time(relation: str, timestamp_ms: int, origin: int, offset: int) -> Fault:
    """Return the fault of a message whose timestamp is not a TIMESTAMP."""
    message = f"the message's timestamp, {timestamp_ms} ms, is not within the years 1970 to 9999"
    return Fault(relation, Reason.FUTURE, message, None, origin, offset)


def _pseudo(stream: ForeignStream, messages: Messages, accepted: Indices) -> tuple[Column, ...]:
    """Return the pseudo-columns that the pipeline reads, for the messages at ``accepted``."""
    if not stream.pseudo:
        return ()
    places = accepted.tolist()
    headers = None if messages.headers is None else [messages.headers[place] for place in places]
    columns = pseudo_columns(
        stream.pseudo,
        *place_of(messages.topic, messages.partition),
        messages.offsets[accepted],
        messages.timestamps[accepted],
        [messages.keys[place] for place in places],
        headers,
    )
    if messages.came_from is None:
        return columns
    # Read again: they are where they had come first.
    first = [messages.came_from[place] for place in places]
    names = ("KAFKA_TOPIC", "KAFKA_PARTITION", "KAFKA_OFFSET")
    moved = {name: [each[at] for each in first] for at, name in enumerate(names)}
    return tuple(
        Column.from_values(column.type, moved[name]) if name in moved else column
        for name, column in zip(stream.pseudo, columns, strict=True)
    )


@dataclass(slots=True)
class StreamReader:
    """Reads one foreign stream from ``positions`` on; owned by one thread."""

    channel: Channel
    positions: dict[int, int]
    crash_points: CrashPoints
    clock: Clock
    looked_up: LookedUp
    """Receives the ends of the partitions from time to time, including those that are not read yet."""
    poll_messages: int = POLL_MESSAGES
    look_up_s: float = LOOK_UP_S
    identity: str | None = None
    """The known id of the topic; None: it is not checked."""
    _look_again: float = float("-inf")
    _reader: PartitionReader | None = None
    _paused: frozenset[int] = field(default_factory=frozenset)
    _joining: deque[tuple[Channel, Mapping[int, int], str | None]] = field(default_factory=deque)
    _suspected: str | None = None
    _message_bytes: float = PRESUMED_BYTES

    def join(self, channel: Channel, positions: Mapping[int, int], identity: str | None) -> None:
        """Also read these partitions from the next poll on, through ``channel``. Called by any thread.

        ``identity`` is the known id from then on.
        """
        self._joining.append((channel, positions, identity))

    def poll(self, timeout_s: float, paused: frozenset[int] = frozenset()) -> list[Delivery]:
        """Return what has arrived; wait up to ``timeout_s`` for the first message.

        Partitions in ``paused`` are not read for now. After an error the next call begins at the
        end of the last delivery.

        Raises:
          UnavailableError, GoneError: as ``PartitionReader.poll``.
          StatementError: the topic is another one than it was.
        """
        self.crash_points.reach("intake.before_poll")
        while self._joining:
            self.channel, joined, self.identity = self._joining.popleft()
            self.positions.update(joined)
            self.close()
        try:
            if self._reader is None:
                check_identity(self.channel.source, self.identity)
                self._reader = self.channel.source.reader(self.positions)
                self._paused = frozenset()
            if paused != self._paused:
                self._reader.pause(sorted(paused - self._paused))
                self._reader.resume(sorted(self._paused - paused))
                self._paused = paused
            self._look_up()
            polled = self._reader.poll(self._wanted(), timeout_s)
        except BaseException:
            self.close()
            raise
        self.crash_points.reach("intake.after_poll")
        try:
            deliveries = [self.channel.deliver(messages) for messages in polled]
        except BaseException:
            # A dependency of the format, such as a schema registry, is down: read all messages again.
            self.close()
            raise
        for messages in polled:
            self.positions[messages.partition] = messages.next_offset
        self._weigh(deliveries)
        self.crash_points.reach("intake.after_decode")
        return deliveries

    def _wanted(self) -> int:
        """Return the number of messages to request: fewer if the last ones were large."""
        return max(1, min(self.poll_messages, int(POLL_BYTES / self._message_bytes)))

    def _weigh(self, deliveries: Sequence[Delivery]) -> None:
        messages = sum(map(len, deliveries))
        if messages:
            self._message_bytes = max(1.0, sum(each.raw_bytes for each in deliveries) / messages)

    def _look_up(self) -> None:
        """Look up, from time to time, the ends of the partitions and whether the topic is still the same."""
        if self.clock.monotonic() < self._look_again:
            return
        self._look_again = self.clock.monotonic() + self.look_up_s
        check_identity(self.channel.source, self.identity)
        ranges = self.channel.source.ranges()
        wrong = another_topic(self.channel.source.topic, self.positions, ranges)
        # Twice in a row, because a broker that has just taken over partitions may not know all of them yet.
        if wrong is not None and self._suspected is not None:
            raise wrong
        self._suspected = None if wrong is None else wrong.message
        self.looked_up(self.channel.relation, ranges)

    def close(self) -> None:
        """Close the reader; a later poll opens another one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def check_identity(source: TopicSource, known: str | None) -> None:
    """Check that a topic is still the same; of several, that all whose ids are ``known`` are.

    Raises:
      StatementError: it is another one of the same name.
    """
    if known is not None:
        _check_same(source, known, source.identity())


def begin_identity_check(source: TopicSource, known: str | None, timeout_s: float) -> Callable[[], None]:
    """Begin ``check_identity``, and return a function that ends it within ``timeout_s``."""
    if known is None:
        return lambda: None
    answer = source.ask_identity(timeout_s)
    return lambda: _check_same(source, known, answer())


def _check_same(source: TopicSource, known: str, found: str | None) -> None:
    # Topics that match a pattern may have come since.
    if found is not None and not set(known.split(",")) <= set(found.split(",")):
        raise StatementError(
            f'topic "{source.topic}" was deleted and created again: it is not the topic that the pipeline '
            "has read",
            hint="Drop the pipeline's checkpoint and its tables, then start it again.",
        )


def another_topic(
    topic: str, positions: Mapping[int, int], ranges: Mapping[int, OffsetRange]
) -> StatementError | None:
    """Return why a topic cannot be the one that was read up to ``positions``; None: it can be."""
    for partition, position in sorted(positions.items()):
        if partition not in ranges:
            continue
        end = ranges[partition].end
        if end < position:
            name, own = place_of(topic, partition)
            return StatementError(
                f'topic "{name}" partition {own} ends at offset {end}, but {position} is committed or '
                "read: it is not the topic that the pipeline has read",
                hint="If it was deleted and created again, drop the pipeline's checkpoint and its tables "
                "and start it again.",
            )
    if gone := [place_of(topic, each) for each in sorted(set(positions) - set(ranges))]:
        name = gone[0][0]
        numbers = ", ".join(str(own) for each, own in gone if each == name)
        return StatementError(
            f'topic "{name}" no longer has partitions {numbers}: it is not the topic that '
            "the pipeline has read",
            hint="Topics never lose partitions: it was deleted and created again. Drop the pipeline's "
            "checkpoint and its tables, then start it again.",
        )
    return None


def cut(delivery: Delivery, channel: Channel, offset: int) -> tuple[Delivery | None, Delivery | None]:
    """Return the parts of a delivery before ``offset`` and from it on; None for an empty part."""
    messages = delivery.messages
    if messages.next_offset <= offset:
        return delivery, None
    count = int(np.searchsorted(messages.offsets, offset))
    head = channel.deliver(_slice(messages, 0, count, offset)) if count else None
    return head, channel.deliver(_slice(messages, count, len(messages.offsets), messages.next_offset))


def _slice(messages: Messages, start: int, stop: int, next_offset: int) -> Messages:
    return Messages(
        topic=messages.topic,
        partition=messages.partition,
        offsets=messages.offsets[start:stop],
        timestamps=messages.timestamps[start:stop],
        keys=messages.keys[start:stop],
        values=messages.values[start:stop],
        next_offset=next_offset,
        headers=None if messages.headers is None else messages.headers[start:stop],
        came_from=None if messages.came_from is None else messages.came_from[start:stop],
    )


def _places_of(offsets: frozenset[int], messages: Messages) -> list[int]:
    """Return the indexes of the messages at ``offsets``."""
    if not offsets or not len(messages.offsets):
        return []
    return np.flatnonzero(np.isin(messages.offsets, list(offsets))).tolist()


def _bound_records(relation: str, origin: int, messages: Messages) -> dict[int, ExplicitBound | Fault]:
    """Find the bound records by position: explicit bounds, or faults if they are malformed."""
    if messages.headers is None:
        return {}
    found: dict[int, ExplicitBound | Fault] = {}
    for index, headers in enumerate(messages.headers):
        if messages.values[index] is not None or not headers:
            continue
        given = dict(headers)
        if BOUND_HEADER not in given:
            continue
        timestamp, offset = int(messages.timestamps[index]), int(messages.offsets[index])
        try:
            found[index] = ExplicitBound(_bound_of(given), offset, timestamp)
        except ValueError as error:
            message = f"the bound record is malformed: {error}"
            found[index] = Fault(relation, Reason.BOUND, message, timestamp, origin, offset)
    return found


def _bound_of(headers: Mapping[str, bytes]) -> Bound:
    """Parse the bound in a bound record's headers. A ValueError describes invalid headers."""
    text = headers[BOUND_HEADER]
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 18:
        raise ValueError(f"header {BOUND_HEADER} is not an integer of milliseconds")
    if int(text) > MAX_TIMESTAMP_MS:
        raise ValueError(f"header {BOUND_HEADER}, {int(text)} ms, is after the year 9999")
    strict = headers.get(STRICT_HEADER, b"0")
    if strict not in (b"0", b"1"):
        raise ValueError(f"header {STRICT_HEADER} is neither 0 nor 1")
    return Bound(int(text) + int(strict))


def _in_log_order(
    tray: Tray, accepted: np.ndarray[tuple[int], np.dtype[np.int64]], bounds: Mapping[int, ExplicitBound]
) -> tuple[Tray | ExplicitBound, ...]:
    """Cut a tray at the bound records between its rows."""
    parts: list[Tray | ExplicitBound] = []
    start = 0
    for index in sorted(bounds):
        stop = int(np.searchsorted(accepted, index))
        if stop > start:
            parts.append(tray.slice(start, stop))
        parts.append(bounds[index])
        start = stop
    if len(tray) > start:
        parts.append(tray.slice(start, len(tray)) if start else tray)
    return tuple(parts)
