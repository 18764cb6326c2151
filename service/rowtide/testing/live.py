"""Scenarios on the engine itself, in memory, with virtual time.

A commit stores a snapshot of the flow, the place in the source log, and the
number of rows of every output. After a crash, a new flow restores the commit
and the log delivers the rest again. ``Recovery.REPLAY`` keeps no snapshot: it
runs the whole log again and drops the rows that came out before. Both ways must
have the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from rowtide.errors import BoundRegressionError, StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.flow.table_changes import LastStatement, changes_of, not_kept
from rowtide.operators.contract import Fault, State
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runtime.inspect.facts import Facts, PartitionFacts, bounds_of_idle
from rowtide.runtime.inspect.why_not import answer
from rowtide.runtime.state.output import TableOutput
from rowtide.sql.catalog.written_names import fold
from rowtide.testing.batching import Batching
from rowtide.testing.compare import ActualRow
from rowtide.testing.entrance import ScenarioEntrance
from rowtide.testing.error_rows import ERRORS, error_givens, settled
from rowtide.testing.outputs import Outputs
from rowtide.testing.pipeline import pipeline_text
from rowtide.testing.relations import Relations
from rowtide.testing.rows import InputRow, RelationShape
from rowtide.testing.scenario import Scenario
from rowtide.testing.source_log import Bounds, Changed, LogEntry, LogRows, Sent, SourceLog
from rowtide.testing.versions import start_session, version_of


class Recovery(Enum):
    """How a stopped pipeline returns to its last commit."""

    SNAPSHOT = "snapshot"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Committed:
    """The last commit: a place in the log, the state there, and the number of output rows.

    Without ``snapshot`` the state comes from a run of the whole log, from the first version on.
    """

    entries: int
    version: int
    snapshot: dict[str, State] | None
    counts: dict[str, int]


class LiveRunner:
    """See ``ScenarioRunner``.

    Raises:
      StatementError: if the pipeline is refused.
    """

    orders_ties = True

    def __init__(
        self, scenario: Scenario, batching: Batching, recovery: Recovery = Recovery.SNAPSHOT
    ) -> None:
        self._scenario = scenario
        self._batching = batching
        self._recovery = recovery
        self._wall = scenario.day.start
        self._log = self._source_log()
        self._session = start_session(scenario, pipeline_text(scenario))
        self._versions = [version_of(scenario, self._session.plan)]
        self._version = 0
        self._outputs = Outputs(self._versions[0].looked_at())
        self._idle = self._versions[0].idle_partitions(self._wall)
        self._committed: Committed | None = None
        self._faults: list[Fault] = []
        self._flow = self._fresh_flow()
        self._record(self._flow.drain())
        self._take_arrived()

    def fold(self, name: str) -> str:
        return fold(name)

    def shape(self, relation: str) -> RelationShape:
        return self._relations.shape(relation)

    def insert(self, relation: str, partition: int, rows: Sequence[InputRow]) -> None:
        name = self._relations.resolve(relation)
        self._take_rows(self._entrance().rows(name, partition, rows, self._wall))

    def insert_raw(
        self, relation: str, partition: int, messages: Sequence[bytes | None], at: int | None
    ) -> None:
        name = self._relations.resolve(relation)
        self._take_in(self._entrance().messages(name, partition, messages, self._wall if at is None else at))

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        name = self._relations.resolve(relation)
        partitions = self._relations.bounded_partitions(name, self._versions[self._version].partitions)
        entry = Bounds(name, partitions if partition is None else (partition,), Bound(rowtime))
        try:
            self._record(*self._fed(entry))
        except BoundRegressionError:
            # Some partitions may have accepted the bound: return to the last commit, and replay up to here.
            self._recover()
            raise
        self._log.entries.append(entry)
        self._hear(entry.relation, entry.partitions)

    def sql(self, text: str) -> None:
        session = copy(self._session)
        version = version_of(self._scenario, session.feed(text))
        for name, node in version.wanted.items():
            before = self._versions[self._version].wanted.get(name)
            if before is None or not self._outputs.untaken(name):
                continue
            if [column.type for column in before.row_type] != [column.type for column in node.row_type]:
                raise StatementError(
                    f'relation "{name}" has given rows of other columns',
                    hint=f"An expect takes them first: expect: {name}.",
                )
        entry = Changed(len(self._versions))
        self._versions.append(version)
        try:
            emitted = self._fed(entry)
        except StatementError:
            self._versions.pop()
            raise
        self._session = session
        self._idle = version.idle_partitions(self._wall) | self._idle
        self._log.entries.append(entry)
        self._record(*emitted)
        self._take_arrived()

    def send(self, text: str) -> None:
        statements = self._session.sent(text)
        rowtime = self._flow.earliest_change(statements.targets)
        done = statements.execute(self._rows_of)
        changes = {
            table: changes_of(change.row_type, change.deleted, change.inserted)
            for table, change in done.changes.items()
        }
        entry = Sent(LastStatement(self._flow.last_statement.number + 1, rowtime), changes)
        self._log.entries.append(entry)
        self._record(*self._fed(entry))

    def advance_wallclock(self, millis: int) -> None:
        self._wall += millis
        self._follow()

    def commit(self) -> None:
        """Also checks that every row is accounted for."""
        self._flow.check()
        topics = self._relations.topics()
        self._outputs.append(ERRORS, error_givens(self._faults, self._flow.source_of, topics, self._log))
        self._faults = []
        snapshot = self._flow.snapshot() if self._recovery is Recovery.SNAPSHOT else None
        self._committed = Committed(len(self._log.entries), self._version, snapshot, self._outputs.counts())

    def crash(self) -> None:
        self._recover()

    def restart(self) -> None:
        self.commit()
        self._recover()

    def output(self, relation: str) -> list[ActualRow]:
        self.commit()
        return self._outputs.take(self._relations.resolve(relation))

    def contents(self, relation: str) -> list[Row]:
        name = self._relations.resolve(relation)
        return self._outputs.contents(name, self._relations.key(name))

    def why_not(self, relation: str) -> list[str]:
        name = self._relations.resolve(relation)
        if name == ERRORS:
            return []
        topics, partitions = self._relations.topics(), {}
        for stream, numbers in self._versions[self._version].partitions.items():
            idle = self._idle.get(stream)
            for number in numbers:
                partitions[stream, number] = PartitionFacts(
                    topics.get(stream, ""),
                    position=0,
                    end=0,
                    idle_timeout_ms=None if idle is None else idle.timeout_ms,
                    silent_ms=None if idle is None else idle.silent_ms(number, self._wall),
                )
        silence = self._flow.why_not(name, self._relations.node(name))
        met, alone = bounds_of_idle(self._flow, partitions)
        facts = Facts(partitions, frozenset(self._relations.names()), met=met, alone=alone)
        found = answer(str(self._scenario.path), name, silence, facts)
        return [f"{cause.cause}: {cause.why} {cause.released}" for cause in found.causes]

    def close(self) -> None:
        """Do nothing: no resource is open."""

    @property
    def _relations(self) -> Relations:
        return self._versions[self._version].relations

    def _rows_of(self, table: str) -> list[Row]:
        try:
            return [timed.row for timed in self._flow.table(table).rows()]
        except KeyError as error:
            raise not_kept(table) from error

    def _fresh_flow(self) -> Flow:
        version = self._versions[self._version]
        return Flow(version.wanted, version.partitions)

    def _source_log(self) -> SourceLog:
        return SourceLog()

    def _take_rows(self, entry: LogRows) -> None:
        self._take_in(entry)

    def _take_in(self, entry: LogRows) -> None:
        self._log.entries.append(entry)
        self._record(*self._fed(entry))
        self._hear(entry.relation, (entry.partition,))

    def _take_arrived(self) -> None:
        """Feed the rows that INSERT statements of the last text put into streams."""
        for each in self._session.arrived:
            rows = [InputRow(rowtime, row) for rowtime, row in each.at(self._wall)]
            self._take_rows(self._entrance().rows(each.relation, 0, rows, self._wall))

    def _hear(self, relation: str, partitions: Sequence[int]) -> None:
        for partition in partitions:
            if relation in self._idle:
                self._idle[relation].note_arrival(partition, self._wall)
        self._follow()

    def _follow(self) -> None:
        """Set the bounds that idle partitions take now, as decisions in the log."""
        while taken := self._bounds_taken():
            for (relation, partition), bound in sorted(taken.items()):
                entry = Bounds(relation, (partition,), Bound(bound), taken=True)
                self._log.entries.append(entry)
                self._record(*self._fed(entry))

    def _bounds_taken(self) -> dict[tuple[str, int], int]:
        bounds = self._flow.bounds()
        taken: dict[tuple[str, int], int] = {}
        idle = []
        for relation, partitions in self._idle.items():
            if not self._flow.reads(relation):
                continue
            own = {number: bound for (name, number), bound in bounds.items() if name == relation}
            for partition, bound in partitions.decide(own, self._wall).items():
                taken[relation, partition] = bound
            if partitions.are_all_idle(self._wall):
                idle.append(relation)
        for place, bound in (self._flow.met(idle) if idle else {}).items():
            if bound > max(bounds[place], taken.get(place, bounds[place])):
                taken[place] = bound
        return taken

    def _entrance(self) -> ScenarioEntrance:
        return ScenarioEntrance(self._relations, self._log)

    def _changed(self, entry: Changed) -> None:
        """Continue with another version of the pipeline."""
        version = self._versions[entry.version]
        flow = Flow(version.wanted, version.partitions)
        flow.succeed(self._flow, version.streams_since(self._versions[self._version]))
        self._faults = [self._moved(fault, flow) for fault in self._faults]
        self._flow, self._version = flow, entry.version
        self._outputs.look_at(version.looked_at())

    def _moved(self, fault: Fault, flow: Flow) -> Fault:
        """Return an uncommitted fault with the origin that its row has in ``flow``."""
        source = self._flow.source_of(fault.origin)
        if source is None or not flow.reads(source[0]):
            return fault
        return replace(fault, origin=flow.origin(*source))

    def _fed(self, entry: LogEntry) -> list[Emitted]:
        """Feed one entry of the log, cut into trays, and yield the output of each tray."""
        if isinstance(entry, Changed):
            self._changed(entry)
            return [self._flow.drain()]
        if isinstance(entry, Sent):
            self._flow.change_tables(entry.statement, entry.changes)
            return [self._flow.drain()]
        if isinstance(entry, Bounds):
            for partition in entry.partitions:
                if entry.taken:
                    self._flow.follow(entry.relation, partition, entry.bound)
                else:
                    self._flow.bound(entry.relation, partition, entry.bound)
            return [self._flow.drain()]
        if not self._flow.reads(entry.relation):
            return [Emitted({}, list(entry.faults))]
        origin = self._flow.origin(entry.relation, entry.partition)
        tray = _signed(entry.tray, origin)
        emitted = [Emitted({}, [replace(fault, origin=origin) for fault in entry.faults])]
        for part in self._batching.cut(len(tray)):
            self._flow.insert(entry.relation, entry.partition, tray.slice(part.start, part.stop))
            emitted.append(self._flow.drain())
        return emitted

    def _record(self, *emitted: Emitted) -> None:
        """Store the output of one step; a row that a foreign table refuses becomes a fault."""
        faults: list[Fault] = []
        for each in emitted:
            for relation, trays in each.outputs.items():
                table = self._relations.foreign_table(relation)
                if table is None:
                    self._outputs.add(relation, trays)
                    continue
                sink = TableOutput(table)
                faults += sink.add(trays)
                writes = sink.take()
                self._outputs.add(relation, () if writes is None else [writes.tray])
            faults += each.faults
        self._faults += settled(faults)

    def _recover(self) -> None:
        """Restore the last commit into a new flow, and process the later entries of the log again."""
        committed = self._committed
        self._faults = []
        self._version = committed.version if committed and committed.snapshot is not None else 0
        self._flow = self._fresh_flow()
        if committed is None:
            self._outputs.cut({})
            self._record(self._flow.drain())
        elif committed.snapshot is not None:
            self._outputs.cut(committed.counts)
            self._flow.restore(committed.snapshot)
        else:
            self._outputs.cut(committed.counts)
            self._flow.drain()
            for entry in self._log.entries[: committed.entries]:
                self._fed(entry)
        for entry in self._log.entries[committed.entries if committed else 0 :]:
            self._record(*self._fed(entry))


def _signed(tray: Tray, origin: int) -> Tray:
    return replace(tray, origin=np.full(len(tray), origin, dtype=np.int32))


def live_runner(scenario: Scenario, batching: Batching) -> LiveRunner:
    """Make the runner that ``--runner live`` names."""
    return LiveRunner(scenario, batching)
