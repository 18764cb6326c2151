"""Backfill: Spark fills history up to a cut of offsets and hands over there (docs/sql/semantics.md#backfill).

The cut is chosen by a time, once, and asserts no bound. Spark processes exactly
the messages before it and stages all rows (``backfill_output``). Then one
transaction moves them to their tables and writes the error rows, and the
positions, bounds and state at the cut, like one commit of the live service.
Nothing is visible before that commit, so a failed backfill is run again. If a
service starts meanwhile, it takes the epoch, and the commit fails.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, PartitionPosition, Record
from rowtide.codec.registry import decoder_of
from rowtide.errors import StatementError
from rowtide.operators.contract import Fault
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.session import spark_errors
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runtime.backfill.backfill_output import ErrorsOutput, TablesOutput, errors_output, written_tables
from rowtide.runtime.backfill.silence import HeldBack, SilenceAtCut, held_back
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.commit.deadletters import RecentMessages
from rowtide.runtime.commit.output import target_table
from rowtide.runtime.commit.retry import Patience, Retry
from rowtide.runtime.context import PipelineContext
from rowtide.runtime.ingest.intake import ExplicitBound, deliver
from rowtide.runtime.ingest.topics import ids_of
from rowtide.runtime.live.work import CommitBatch
from rowtide.runtime.polling.options import poller_of
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide_connectors.api import Messages
from rowtide_connectors.errors import RefusedStageError
from rowtide_connectors.several import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_log = structlog.get_logger("rowtide")

FrameReader = Callable[[ForeignStream, str, Mapping[int, int], Mapping[int, int]], "DataFrame"]
"""Reads the messages of a foreign stream, whose topics are listed, between two offsets of each partition."""


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """The result of a backfill: rows written by table, error rows, messages read, cut by partition.

    ``held_back`` names the partitions that rows wait for.
    """

    rows: Mapping[str, int]
    errors: int
    messages: int
    positions: Mapping[str, Mapping[int, int]]
    held_back: Sequence[HeldBack] = ()


class MessageIntake:
    """Decodes the messages of a frame inside a task, as the live service does. Pickled to workers."""

    def __init__(self, streams: Mapping[str, ForeignStream]) -> None:
        self._streams = dict(streams)

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | Bound | Fault]]:
        stream = self._streams[relation]
        decoder = decoder_of(stream)
        for messages in _by_partition(batch):
            delivery = deliver(stream, decoder, origins[messages.partition], messages)
            for fault in delivery.faults:
                yield messages.partition, fault
            for part in delivery.parts:
                yield messages.partition, part.bound if isinstance(part, ExplicitBound) else part


def backfill(
    context: PipelineContext,
    session: SparkSession,
    frames: FrameReader,
    scratch: str,
    until_ms: int,
    *,
    in_order: bool = False,
    take_over: bool = False,
) -> BackfillReport:
    """Fill history with Spark and hand over to the live service.

    Args:
      context: the same as for the live service: the plan, its sources and its database.
      session: the Spark session.
      frames: reads messages.
      scratch: a folder of this process, for the state of rows that wait.
      until_ms: the cut of each partition is its first message with this timestamp or a later one, else its
        end.
      in_order: ``frames`` reads each partition in one task, in the order of its offsets.
      take_over: start although another backfill of the pipeline runs, which then cannot commit.

    Raises:
      StatementError: the pipeline has committed positions, or another backfill of it runs; no state
      has changed.
      SupersededError: another process took the pipeline meanwhile; no row was committed.
      TransientError: a dependency is down and waiting is not wanted, or Spark stops.
    """
    patience = Patience(context.wait, denied_ends=lambda: True)

    def retry(dependency: str) -> Retry:
        return Retry(
            dependency, clock=context.clock, rng=context.rng, stopping=context.stopping, patience=patience
        )

    refuse_if_begun(context, take_over=take_over)
    begin = {
        name: {partition: held.earliest for partition, held in source.ranges().items()}
        for name, source in context.sources.items()
    }
    end = {
        name: {
            partition: max(offset, begin[name][partition])
            for partition, offset in source.offsets_at(until_ms).items()
        }
        for name, source in context.sources.items()
    }
    database = retry("database")
    targets = [target_table(table) for table in context.plan.foreign_tables]
    database.call(lambda: context.database.prepare(targets))
    holder = f"{_process(os.getpid())}, a backfill"
    digests = dumped(plan_digests(context.plan))
    record = database.call(
        lambda: context.ledger.claim(digests, holder, partial(_refuse_positions, context.name))
    )
    _log.info("backfill", pipeline=context.name, epoch=record.epoch, cut=end)
    if session.sparkContext.uiWebUrl is not None:
        _log.info("spark_ui", url=session.sparkContext.uiWebUrl)
    streams = {stream.name: stream for stream in context.plan.foreign_streams}
    outputs = table_nodes(context.plan)
    partitions = {name: sorted(held) for name, held in begin.items()}
    keys = {table.name: table.key for table in written_tables(context.plan)}
    run = SparkRun(session, RunDefinition(outputs, partitions), scratch, MessageIntake(streams), keys)
    with closing(run):
        messages = {
            name: frames(streams[name], source.topic, begin[name], end[name])
            for name, source in context.sources.items()
        }
        cut = {
            (name, partition): offset
            for name, offsets in end.items()
            for partition, offset in offsets.items()
        }
        silence = SilenceAtCut(context, context.plan.foreign_streams, cut, retry("broker"))
        with spark_errors():
            run.read(messages, in_order=in_order, silent=silence, progress=_progress(context))
        flow = run.shadow()
        flow.check()
        # Before the commit: nothing may fail after it.
        waiting = held_back(run, context, cut, silence, retry("broker"))
        ids = {name: ids_of(source, begin[name]) for name, source in context.sources.items()}
        partition_positions = [
            PartitionPosition(
                name,
                place_of(context.sources[name].topic, partition)[0],
                partition,
                offset,
                begin[name][partition],
                None if (bound := flow.bounds()[name, partition]) == EARLIEST else bound,
                ids[name][partition],
            )
            for name, offsets in end.items()
            for partition, offset in sorted(offsets.items())
        ]
        positions = {position.place: position.next_offset for position in partition_positions}
        places = {flow.origin(*place): place for place in positions}
        # Tasks of Spark get it.
        topics = {name: source.topic for name, source in context.sources.items()}
        committer = Committer(context, record, flow.source_of, retry=database, fetching=retry("broker"))
        tables = TablesOutput(run, context, record.epoch, database)

        def commit() -> ErrorsOutput:
            errors = errors_output(run, messages, places, topics)
            snapshot = KeptSnapshot(positions, run.state())
            batch = CommitBatch(
                tables.writes(),
                tuple(errors.faults),
                tuple(partition_positions),
                snapshot,
                run.messages,
                silence.decisions,
                tables.moves(),
                errors.rows,
            )
            committer.commit(batch, RecentMessages())
            return errors

        try:
            with spark_errors():
                tables.prepare()
                try:
                    errors = commit()
                except RefusedStageError as error:
                    _log.info("row_refused", reason=error.message, hint="The tables are written in chunks.")
                    tables.unstage()
                    errors = commit()
        except (Exception, KeyboardInterrupt):
            tables.drop()
            raise
        return BackfillReport(tables.counts, errors.count, run.messages, end, waiting)


def _progress(context: PipelineContext) -> Callable[[str, int], None]:
    """Return a function that logs each segment that has run: its rows, and the time since the one before."""
    last = context.clock.monotonic()

    def tell(segment: str, rows: int) -> None:
        nonlocal last
        now = context.clock.monotonic()
        _log.info("backfill_segment", segment=segment, rows=rows, seconds=round(now - last, 1))
        last = now

    return tell


def _refuse_positions(name: str, record: Record) -> None:
    if record.partition_positions:
        raise StatementError(
            f'pipeline "{name}" has committed positions: a backfill would repeat what is there',
            hint="Run the pipeline to continue from them, or set another name (pipeline.name) and other "
            "tables to backfill again.",
        )


def refuse_if_begun(context: PipelineContext, *, take_over: bool = False) -> None:
    """Refuse a pipeline that the live service has started, that another process backfills, or that writes topics.

    Only the backfill with the latest epoch can commit, so a second one would waste the work of the
    first. Processes on other machines are not detected. ``take_over`` allows a second backfill.

    Raises:
      StatementError: the pipeline has committed positions, another backfill of it runs, or it writes to topics.
    """
    if context.plan.written_streams:
        named = ", ".join(f'"{stream.name}"' for stream in context.plan.written_streams)
        raise StatementError(
            f"a backfill writes to tables only, and pumps write to foreign streams: {named}",
            hint="Let `rowtide run` fill in the history, or leave these pumps out of the file that is backfilled: "
            "`rowtide apply` adds them afterwards.",
        )
    record = context.ledger.read()
    if record is None:
        return
    _refuse_positions(context.name, record)
    other = re.fullmatch(r"(.*) process (\d+), a backfill", record.holder)
    if other is None or take_over:
        return
    pid = int(other[2])
    if record.holder.startswith(_process(pid)) and pid != os.getpid() and _is_running(pid):
        raise StatementError(
            f'another backfill of pipeline "{context.name}" is running: {_process(pid)}',
            hint="Wait until it ends, or stop it; with --take-over this backfill starts and the other one "
            "cannot commit.",
        )


def _process(pid: int) -> str:
    return f"{socket.gethostname()} process {pid}"


def _is_running(pid: int) -> bool:
    """Return whether a process of this machine runs. A zombie counts as ended."""
    try:
        # The name, in parentheses, may contain any character. The state follows it.
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not status.rpartition(")")[2].lstrip().startswith("Z")


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
                f'foreign stream "{stream.name}" is read through {wrapper}: a backfill reads Kafka only'
            )

    def frames(
        stream: ForeignStream, topics: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> DataFrame:
        return read(topics, dict(servers[stream.server].options), begin, end)

    return frames
