"""Input and output of a pipeline in one process: makes its channels, readers and committer.

A run, ``apply``, ``replay`` and ``explain --why`` each make their own. It defines who waits for a
dependency that is down, and holds the known partitions of the topics.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rowtide.checkpoint.file_list import FileList
from rowtide.checkpoint.ledger import PartitionId, Record, StoredError
from rowtide.codec.message import MessageEncoder
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.operators.contract import RESUBMITTED
from rowtide.plan.plan import ForeignStream
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.ingest.bound_origins import BoundOrigins
from rowtide.runtime.ingest.channels import channel
from rowtide.runtime.ingest.inbox import DirectInbox, Inbox, ThreadedInbox
from rowtide.runtime.ingest.intake import Channel, StreamReader
from rowtide.runtime.ingest.skipping import Skipped, skipped_of
from rowtide.runtime.leadership.heart import Heart
from rowtide.runtime.live.backpressure import Backpressure
from rowtide.runtime.live.partition_watch import PartitionWatch
from rowtide.runtime.live.resubmission import topic_places
from rowtide.runtime.outbox.outboxes import Outboxes
from rowtide.runtime.outbox.sender import Begun, Sender, SenderParts
from rowtide.runtime.outbox_options import outbox_options
from rowtide.runtime.polling.topic import PolledTopic
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.retry import Patience, Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.status import DATABASE, StatusBoard, broker_of, database_of, registry_for
from rowtide.runtime.state.stream_output import StreamOutput
from rowtide.runtime.topics import TopicNames
from rowtide_connectors.api import OffsetRange
from rowtide_connectors.errors import GoneError, MismatchError
from rowtide_connectors.listed import ListedSource


@contextmanager
def _refused(relation: str) -> Iterator[None]:
    """Turn what does not fit a foreign stream into an error that ends a start."""
    try:
        yield
    except (GoneError, MismatchError) as error:
        raise StatementError(f'foreign stream "{relation}": {error.message}', hint=error.hint) from error


class PipelineIO:
    """The readers and the committer of one pipeline in one process.

    Raises:
      StatementError: an option of a foreign stream is invalid.
    """

    def __init__(self, context: PipelineContext) -> None:
        self.context = context
        self.streams = {
            stream.name: stream for stream in context.plan.foreign_streams if stream.name in context.sources
        }
        self.board = StatusBoard(context.name, context.clock, context.observer.entered_phase)
        self.progress = ProgressBoard(context.plan, self.board, context.clock)
        topics = TopicNames(context.sources)
        self.partitions = PartitionWatch(self.streams, topics, context.clock, self.board, context.observer)
        self.identities: Mapping[str, str] = {}
        """The ids of each foreign stream's topics. Set by a start, and when topics join."""
        self.while_waiting: Callable[[], None] = lambda: None
        """Called by the main loop whenever it waits for a dependency."""
        self.statement_sent = threading.Event()
        """Set by any thread that has sent a statement."""
        self.heart = Heart(
            context.ledger.leadership,
            context.clock,
            last_commit=lambda: self.board.status().last_commit_ms,
            failed=lambda: context.observer.retried(DATABASE),
        )
        self.database = self._retry(DATABASE, beats=True)
        self.broker = self._retry("broker", beats=True)
        self._skipped: Skipped = {}

    def is_stopping(self) -> bool:
        """Return whether to stop. The call shows that the main loop runs, to followers, too.

        Raises:
          SupersededError: another process took the pipeline.
        """
        self.board.beat()
        self.heart.beat_if_due()
        return self.context.stopping()

    def begins(self, state: PipelineState) -> BoundOrigins:
        """Show that a recovered pipeline runs, and where. Return what follows the origins of its bounds."""
        origins = BoundOrigins(self.database.call(self.context.ledger.decisions))
        self.board.enter("running")
        self.board.place(state.partition_positions(), lambda each: origins.of(each, state.flow))
        self.progress.begins(state)
        return origins

    def committer(self, record: Record, source_of: Callable[[int], PartitionId | None]) -> Committer:
        """Return what commits batches under the epoch of ``record``."""
        return Committer(self.context, record, source_of, retry=self.database, fetching=self.broker)

    def channels(self, flow: Flow) -> dict[str, Channel]:
        """Return the channel of each foreign stream to ``flow``."""
        self._skipped = skipped_of(self.database.call(self.context.ledger.decisions))
        return {name: self.channel(name, flow) for name in self.streams}

    def channel(self, relation: str, flow: Flow) -> Channel:
        """Return the channel of one stream to ``flow``, which leaves out skipped messages."""
        return channel(self.streams[relation], self.context.sources[relation], flow, self._skipped)

    def topic_streams(self) -> list[ForeignStream]:
        """Return the foreign streams that are read, without tables of databases: these have no messages."""
        return [stream for relation, stream in self.streams.items() if relation not in self._polled()]

    def feed(self, epoch: int) -> None:
        """Let the readers of tables of databases poll them from now on, under ``epoch``."""
        for source in self._polled().values():
            source.feed(epoch, self.context.clock, self.context.crash_points)

    def rest(self) -> None:
        """Stop what only a process does that leads: heartbeats, polls of databases, and the listing of files."""
        self.heart.rest()
        for source in self._polled().values():
            source.rest()
        for relation, files in self._listed().items():
            self._keep(relation, files, None)

    def list_files(self, epoch: int) -> Mapping[str, Mapping[int, OffsetRange]]:
        """Let sources of files list new ones from now on, under ``epoch``, and look for some. Return their ranges.

        Raises:
          StatementError: a folder does not exist.
        """
        found: dict[str, Mapping[int, OffsetRange]] = {}
        for relation, source in self._listed().items():
            self._keep(relation, source, epoch)
            with _refused(relation):
                self._retry(broker_of(relation), beats=True).call(source.look)
                found[relation] = self.context.sources[relation].ranges()
        return found

    def _keep(self, relation: str, source: ListedSource, epoch: int | None) -> None:
        """Let a source use the list of the checkpoint; without ``epoch``, it only reads it."""
        context = self.context
        log = FileList(context.database, context.name, relation, epoch, context.crash_points.reach)
        source.keep(log, monotonic=context.clock.monotonic, sleep=context.clock.sleep)

    def _listed(self) -> dict[str, ListedSource]:
        sources = self.context.sources.items()
        return {relation: source for relation, source in sources if isinstance(source, ListedSource)}

    def check_tables(self) -> None:
        """Check that the tables of databases fit their declarations.

        Raises:
          GoneError, MismatchError: one does not exist, or does not fit.
        """
        for relation, source in self._polled().items():
            self._retry(self.source_name(relation), beats=True).call(source.check)

    def polled_ends(
        self, ranges: Mapping[str, Mapping[int, OffsetRange]]
    ) -> Mapping[str, Mapping[int, OffsetRange]]:
        """Poll the tables of databases that are due. Return the ranges of topics with those of their logs."""
        ends = dict(ranges)
        for relation, source in self._polled().items():
            retry = self._retry(self.source_name(relation), beats=True)
            retry.call(source.poll_if_due)
            ends[relation] = retry.call(source.ranges)
        return ends

    def source_name(self, relation: str) -> str:
        """Return the name under which the broker or database of a foreign stream is waited for."""
        return database_of(relation) if relation in self._polled() else broker_of(relation)

    def poll_intervals_ms(self) -> Mapping[str, int]:
        """Return the interval of polls of each table of a database."""
        return {relation: source.interval_ms for relation, source in self._polled().items()}

    def _polled(self) -> dict[str, PolledTopic]:
        sources = self.context.sources.items()
        return {relation: source for relation, source in sources if isinstance(source, PolledTopic)}

    def open_inbox(self, positions: Mapping[PartitionId, int], channels: Mapping[str, Channel]) -> Inbox:
        """Open the readers of these partitions."""
        context = self.context
        readers = []
        for relation, each in sorted(channels.items()):
            own = {
                partition: positions[name, partition]
                for name, partition in topic_places(positions)
                if name == relation
            }
            if own:
                retry = self._retry(self.source_name(relation), beats=not context.threads)
                reader = StreamReader(
                    each,
                    own,
                    context.crash_points,
                    context.clock,
                    self.looked_up,
                    context.poll_messages,
                    self.partitions.look_up_s(relation),
                    self.identities.get(relation),
                )
                readers.append((reader, retry))
        if context.threads:
            return ThreadedInbox(readers, context.queue_messages, context.queue_bytes)
        return DirectInbox(readers, context.clock)

    def looked_up(self, relation: str, ranges: Mapping[int, OffsetRange]) -> None:
        """Note the ranges of partitions, and ask again who stamps the messages. Called by reading threads.

        Raises:
          As ``TopicSource.has_append_times``.
        """
        times = self.partitions.append_times
        if times.depends_on(relation):
            # Asked after the ends: they prove nothing if producers have begun to stamp since.
            times.stamped_by(relation, broker=self.context.sources[relation].has_append_times())
        self.partitions.looked_up(relation, ranges)

    def check_sinks(self) -> None:
        """Check the topics that pumps write to, and their schemas. Disturbs no running process.

        Raises:
          StatementError: one does not exist, or does not fit.
          TransientError, StoppedError: a broker or a schema registry is down and is not waited for.
        """
        for relation, sink in sorted(self.context.sinks.items()):
            opened = sink.open("check")
            try:
                with _refused(relation):
                    self._retry(broker_of(relation), beats=True).call(opened.check)
                    encoder = MessageEncoder(sink.stream)
                    self._retry(registry_for(relation), beats=True).call(encoder.check)
            finally:
                opened.close()

    def prepare_outputs(self, state: PipelineState) -> None:
        """Fetch or register the schemas of the messages that ``work`` makes.

        Raises:
          As ``check_sinks``.
        """
        for relation, output in sorted(state.outputs.items()):
            if isinstance(output, StreamOutput):
                with _refused(relation):
                    self._retry(registry_for(relation), beats=True).call(output.prepare)

    def open_outboxes(self, record: Record) -> Outboxes:
        """Start the senders of the messages that this and earlier processes have committed."""
        context = self.context
        senders = {}
        for relation, sink in sorted(context.sinks.items()):
            outbox = context.ledger.outbox(relation)
            first = self.database.call(outbox.open)
            beats = not context.threads
            begun = Begun()
            parts = SenderParts(
                relation,
                record.epoch,
                sink.guarantee,
                outbox_options(sink.stream).resends,
                context.ledger,
                outbox,
                sink.open(f"{context.name}-{relation}-{first.sender}"),
                self._retry(DATABASE, beats=beats),
                self._retry(broker_of(relation), beats=beats, denied_ends=begun.is_missing),
                context.crash_points,
                context.clock.monotonic,
                begun,
            )
            senders[relation] = (Sender(parts, first), first.last, outbox_options(sink.stream).max_pending)
        return Outboxes(senders, context.clock, self._sent, threads=context.threads)

    def _sent(self, relation: str, messages: int, pending: int) -> None:
        self.board.sent(relation, pending)
        self.context.observer.sent(relation, messages, pending)

    def backpressure(self) -> Backpressure:
        """Return the balance of the partitions, with the limits of the context."""
        context = self.context
        return Backpressure(context.plan.pumps, context.clock, context.max_held_rows, context.max_held_bytes)

    def resubmitted(self, partition: PartitionId) -> Sequence[StoredError]:
        """Return the error rows of a resubmission."""
        number = partition[1] - RESUBMITTED
        return self.database.call(lambda: self.context.ledger.resubmitted(number))

    def _retry(self, dependency: str, *, beats: bool, denied_ends: Callable[[], bool] | None = None) -> Retry:
        context = self.context
        return Retry(
            dependency,
            clock=context.clock,
            rng=random.Random(context.rng.random()),
            stopping=context.stopping,
            patience=Patience(
                context.wait, denied_ends=denied_ends or (lambda: self.board.status().epoch is None)
            ),
            waiting=self._note_waiting if beats else self.board.waiting,
            failed=context.observer.retried,
        )

    def _note_waiting(self, dependency: str, is_down: bool) -> None:
        """Note a wait of the main loop, which counts as progress."""
        self.board.waiting(dependency, is_down)
        self.board.beat()
        self.while_waiting()
