"""Scenarios against a real broker: the input is written to topics and read back from them.

Each source relation has its own topic, with the partitions that the file
mentions. Raw messages are written unchanged, with their timestamp. A bound is
written as a bound record, as producers write it. A row of ``insert: .. rows`` is
an Arrow message, because only foreign streams have a format. Raw bytes of error
rows are fetched from the broker. The live engine processes the rows: with virtual
time, and with commits in memory.

A scenario with ``restart`` is skipped: the service's own tests kill and restart
it on a real broker. Kafka has no timestamps before 1970, and its client has none
at 1970-01-01 00:00:00; for these times the runner uses the time in the file.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Self

import confluent_kafka as ck
import numpy as np
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from rowtide.codec.contract import Decoded
from rowtide.errors import FaultError, TransientError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.runtime.ingest.intake import BOUND_HEADER, ExplicitBound, deliver
from rowtide.testing.batching import Batching
from rowtide.testing.kafka_server import EVENT_TIME_CONFIG, KafkaServer
from rowtide.testing.live import LiveRunner
from rowtide.testing.runner import NotPlayedError
from rowtide.testing.scenario import Restart, Scenario
from rowtide.testing.source_log import LogRows, SourceLog
from rowtide_connectors.api import Messages, PartitionReader, TopicSource
from rowtide_connectors.registry import find_source

STARTED_S = 90.0
"""A broker starts in 6 s on an idle machine, and in a minute on a loaded one."""
ANSWER_S = 30.0
"""Time limit for the broker to answer, and to return the written messages."""
POLL_MESSAGES = 10_000

KafkaHeader = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class _Sent:
    """One message to write; ``at`` is its timestamp (ms)."""

    value: bytes | None
    at: int
    headers: tuple[KafkaHeader, ...] = ()


@dataclass(slots=True)
class _Topic:
    """The topic of one source relation, and its reader."""

    source: TopicSource
    reader: PartitionReader
    kept: list[Messages] = field(default_factory=list)


class Topics:
    """The topics of one scenario; each is created at the first write to its relation."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._server = {"bootstrap_servers": bootstrap_servers}
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._producer = ck.Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0, "linger.ms": 0})
        self._prefix = f"rowtide-test-{uuid.uuid4().hex[:12]}"
        self._topics: dict[str, _Topic] = {}

    def through(
        self, relation: str, partition: int, sent: Sequence[_Sent], partitions: Sequence[int]
    ) -> Messages:
        """Write messages to a partition and return them as read back.

        Raises:
          TransientError: the broker does not accept them, or does not return them in time.
          FaultError: the messages read differ from those written.
        """
        topic = self._topics.get(relation) or self._make(relation, max(partitions) + 1)
        refused: list[str] = []

        def delivered(error: ck.KafkaError | None, _: ck.Message) -> None:
            if error is not None:
                refused.append(error.str())

        for each in sent:
            headers: list[tuple[str, str | bytes | None]] = list(each.headers)
            self._producer.produce(
                topic.source.topic,
                each.value,
                partition=partition,
                timestamp=max(each.at, 0),
                headers=headers,
                on_delivery=delivered,
            )
        if self._producer.flush(ANSWER_S) or refused:
            raise TransientError(
                "the broker does not take messages: " + "; ".join(refused or ["it is silent"])
            )
        came = self._read(topic, partition, len(sent))
        if list(came.values) != [each.value for each in sent]:
            raise FaultError(f'other messages of "{relation}" came back than were written')
        return came

    def fetch(self, relation: str, partition: int, offset: int) -> bytes | None:
        """Fetch the value at an offset from the broker."""
        return self._topics[relation].source.fetch(partition, [offset])[offset].value

    def close(self) -> None:
        """Release the connections and delete the topics."""
        for topic in self._topics.values():
            topic.reader.close()
            topic.source.close()
        if self._topics:
            names = [topic.source.topic for topic in self._topics.values()]
            for deleted in self._admin.delete_topics(names).values():
                deleted.result(ANSWER_S)
        self._topics = {}

    def _make(self, relation: str, partitions: int) -> _Topic:
        name = f"{self._prefix}-{len(self._topics)}"
        _make_topic(self._admin, name, partitions)
        source = find_source("kafka").open(self._server, {"topic": name})
        made = _Topic(source, source.reader(dict.fromkeys(range(partitions), 0)))
        self._topics[relation] = made
        return made

    def _read(self, topic: _Topic, partition: int, count: int) -> Messages:
        parts: list[Messages] = []
        deadline = monotonic() + ANSWER_S
        while sum(len(part.offsets) for part in parts) < count:
            if monotonic() > deadline:
                raise TransientError(f'topic "{topic.source.topic}" does not return what was written')
            polled = topic.reader.poll(POLL_MESSAGES, 1.0)
            parts += [part for part in polled if part.partition == partition and len(part.offsets)]
        headers = [each for part in parts for each in part.headers or [None] * len(part.offsets)]
        return Messages(
            topic=topic.source.topic,
            partition=partition,
            offsets=np.concatenate([part.offsets for part in parts]),
            timestamps=np.concatenate([part.timestamps for part in parts]),
            keys=[key for part in parts for key in part.keys],
            values=[value for part in parts for value in part.values],
            next_offset=parts[-1].next_offset,
            headers=headers,
        )


class KafkaLog(SourceLog):
    """The source log; it fetches raw bytes from the broker."""

    def __init__(self, topics: Topics) -> None:
        super().__init__()
        self._topics = topics
        self._places: dict[tuple[str, int, int], int] = {}
        self.read: Sequence[int] = ()
        """The offsets, in the topic, of the messages that enter next."""

    def keep_raw(self, relation: str, partition: int, first: int, messages: Sequence[bytes | None]) -> None:
        """Record the offsets of the messages."""
        for number, offset in enumerate(self.read):
            self._places[relation, partition, first + number] = offset

    def raw(self, relation: str, partition: int, offset: int) -> bytes | None:
        """Fetch a message; None if the row came from no message or was not decoded."""
        place = self._places.get((relation, partition, offset))
        return None if place is None else self._topics.fetch(relation, partition, place)


class KafkaRunner(LiveRunner):
    """See ``ScenarioRunner``.

    Raises:
      StatementError: if the pipeline is refused.
      NotPlayedError: the scenario has a restart.
    """

    _log: KafkaLog

    def __init__(self, scenario: Scenario, batching: Batching, topics: Topics) -> None:
        if any(isinstance(step, Restart) for step in scenario.steps):
            raise NotPlayedError("it has a restart, which is not played on Kafka")
        self._topics = topics
        super().__init__(scenario, batching)

    def insert_raw(
        self, relation: str, partition: int, messages: Sequence[bytes | None], at: int | None
    ) -> None:
        name = self._relations.resolve(relation)
        stamp = self._wall if at is None else at
        if messages and self._relations.foreign_stream(name) is not None:
            came = self._through(name, partition, [_Sent(value, stamp) for value in messages])
            self._log.read = came.offsets.tolist()
            messages, stamp = came.values, int(came.timestamps[0]) if stamp > 0 else stamp
        super().insert_raw(relation, partition, messages, stamp)

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        # A bound of a source is written as a bound record; a bound of a view is set directly.
        name = self._relations.resolve(relation)
        if self._relations.entrance(name) is not None:
            known = self._versions[self._version].partitions[name]
            record = _Sent(None, self._wall, ((BOUND_HEADER, str(rowtime).encode()),))
            for each in known if partition is None else (partition,):
                rowtime = _promised(name, self._through(name, each, [record]))
        super().bound(relation, partition, rowtime)

    def close(self) -> None:
        # Deletes the topics.
        self._topics.close()

    def _source_log(self) -> SourceLog:
        return KafkaLog(self._topics)

    def _take_rows(self, entry: LogRows) -> None:
        """Send rows through a topic, one message for each row."""
        if len(entry.tray):
            sent = [_Sent(_packed(entry.tray.slice(at, at + 1)), self._wall) for at in range(len(entry.tray))]
            came = self._through(entry.relation, entry.partition, sent)
            rows = [_unpacked(entry.tray.row_type, value) for value in came.values if value is not None]
            entry = LogRows(entry.relation, entry.partition, Tray.concat(rows), entry.faults)
        super()._take_rows(entry)

    def _through(self, relation: str, partition: int, sent: Sequence[_Sent]) -> Messages:
        partitions = self._versions[self._version].partitions[relation]
        return self._topics.through(relation, partition, sent, partitions)


class KafkaRunners:
    """Makes the runners that ``--runner kafka`` names, all on one broker; see ``RunnerFactory``.

    Without an address it starts its own broker, and stops it at the end.

    Raises:
      StatementError: Java or PySpark is not installed.
      TransientError: the broker does not start or does not answer.
    """

    def __init__(self, bootstrap_servers: str | None = None) -> None:
        self._held = ExitStack()
        ready_s = ANSWER_S
        with ExitStack() as starting:
            if bootstrap_servers is None:
                ready_s = STARTED_S
                folder = starting.enter_context(tempfile.TemporaryDirectory(prefix="rowtide-kafka-"))
                server = KafkaServer(Path(folder), is_brief=True)
                starting.callback(server.stop, kill=True)
                server.start()
                bootstrap_servers = server.bootstrap_servers
            _wait_until_ready(bootstrap_servers, ready_s)
            self._held = starting.pop_all()
        self._bootstrap_servers = bootstrap_servers

    def __call__(self, scenario: Scenario, batching: Batching) -> KafkaRunner:
        return KafkaRunner(scenario, batching, Topics(self._bootstrap_servers))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the broker, if it was started here."""
        self._held.close()


class _BoundsOnly:
    """Decodes nothing: a topic of rows has only messages that need no decoder."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        return Decoded((), np.empty(0, dtype=np.int64), ())


def _promised(relation: str, came: Messages) -> int:
    """Return the bound (ms) of a bound record, as the service reads it."""
    stream = ForeignStream(relation, RowType(()), "", ())
    (mark,) = deliver(stream, _BoundsOnly(), 0, came).parts
    if not isinstance(mark, ExplicitBound):
        raise FaultError(f'a bound record of "{relation}" came back as rows')
    return mark.bound.rowtime


def _packed(tray: Tray) -> bytes:
    sink = pa.BufferOutputStream()
    table = tray.to_arrow()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(row_type: RowType, content: bytes) -> Tray:
    return Tray.from_arrow(row_type, pa.ipc.open_stream(content).read_all())


def _make_topic(admin: AdminClient, name: str, partitions: int) -> None:
    new = NewTopic(name, partitions, 1, config=dict(EVENT_TIME_CONFIG))
    for created in admin.create_topics([new]).values():
        created.result(ANSWER_S)


def _wait_until_ready(bootstrap_servers: str, timeout_s: float) -> None:
    """Wait until the broker answers.

    Raises:
      TransientError: it does not.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        admin.list_topics(timeout=timeout_s)
    except ck.KafkaException as error:
        raise TransientError(
            f'the broker at "{bootstrap_servers}" does not answer: {error.args[0].str()}',
            hint="Without --broker, one is started for the run.",
        ) from error
