"""The messages of a backfill: frames of Spark with those of a foreign stream, and their decoding inside tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rowtide.codec.registry import decoder_of
from rowtide.errors import StatementError
from rowtide.operators.contract import Fault
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.rows.tray import Tray
from rowtide.runners.spark.stage import BoundRecord
from rowtide.runtime.ingest.intake import ExplicitBound, deliver
from rowtide.runtime.ingest.skipping import Skipped
from rowtide.runtime.polling.options import poller_of
from rowtide_connectors.api import Messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FrameReader = Callable[[ForeignStream, str, Mapping[int, int], Mapping[int, int]], "DataFrame"]
"""Reads the messages of a foreign stream, whose topics are listed, between two offsets of each partition."""


class MessageIntake:
    """Decodes the messages of a frame inside a task, as the live service does. Pickled to workers.

    ``skipped`` are the offsets that committed decisions skip.
    """

    def __init__(self, streams: Mapping[str, ForeignStream], skipped: Skipped | None = None) -> None:
        self._streams = dict(streams)
        self._skipped = dict(skipped or {})

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | BoundRecord | Fault]]:
        stream = self._streams[relation]
        decoder = decoder_of(stream)
        for messages in _by_partition(batch):
            skipped = self._skipped.get(relation, {}).get(messages.partition, frozenset())
            delivery = deliver(stream, decoder, origins[messages.partition], messages, skipped)
            for fault in delivery.faults:
                yield messages.partition, fault
            for part in delivery.parts:
                if isinstance(part, ExplicitBound):
                    yield messages.partition, BoundRecord(part.bound, part.offset, part.timestamp)
                else:
                    yield messages.partition, part


def _by_partition(batch: pa.RecordBatch) -> Iterator[Messages]:
    """Cut a batch of messages, sorted by partition and offset, into those of each partition."""
    partitions = np.asarray(batch.column("partition"))
    starts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    for start, stop in pairwise(starts):
        if start == stop:
            continue
        part = batch.slice(start, stop - start)
        offsets = np.asarray(part.column("offset"))
        headers = part.column("headers").to_pylist()
        yield Messages(
            topic=part.column("topic")[0].as_py(),
            partition=int(partitions[start]),
            offsets=offsets,
            timestamps=np.asarray(part.column("timestamp")),
            keys=part.column("key").to_pylist(),
            values=part.column("value").to_pylist(),
            next_offset=int(offsets[-1]) + 1,
            headers=[
                None if each is None else [(pair["key"], pair["value"]) for pair in each] for each in headers
            ],
        )


def kafka_frames(plan: Plan, read: Callable[..., DataFrame]) -> FrameReader:
    """Return the readers of a plan's foreign streams from Kafka.

    ``read`` takes the topics, server options, and the offsets to begin and to end at, by partition.

    Raises:
      StatementError: a foreign stream is not on Kafka, the only log that Spark reads.
    """
    servers = {server.name: server for server in plan.servers}
    for stream in plan.foreign_streams:
        wrapper = servers[stream.server].wrapper
        if poller_of(plan, stream) is not None:
            raise StatementError(
                f'table "{stream.name}" is read from a database, which does not keep its earlier states: a '
                "backfill cannot read it",
                hint="Process history with `rowtide run --from earliest`: the rows of the first poll hold for "
                "all of history. Or fill the table from a topic with its changes (format 'DEBEZIUM_JSON').",
            )
        if wrapper.upper() != "KAFKA":
            raise StatementError(
                f'foreign stream "{stream.name}" is read through {wrapper}: a backfill reads Kafka only',
                hint="Process history with `rowtide run --until-end`, which reads what is there and ends.",
            )

    def frames(
        stream: ForeignStream, topics: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> DataFrame:
        return read(topics, dict(servers[stream.server].options), begin, end)

    return frames
