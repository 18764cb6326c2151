"""Scenarios on the engine itself, in memory, with virtual time.

A commit is a snapshot of the flow, the place in the source log, and how much
of every output had been given. A crash goes back to it with a fresh flow, and
the log delivers the rest again. ``Recovery.REPLAY`` keeps no snapshot: it runs
the whole log anew and drops what was given before. Both must come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from rowtide.errors import BoundRegressionError, StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.operators.contract import Fault, State
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import Session
from rowtide.testing.batching import Batching
from rowtide.testing.compare import Given
from rowtide.testing.entrance import Entrance
from rowtide.testing.error_rows import ERRORS, error_givens, settled
from rowtide.testing.naming import fold, relation_name
from rowtide.testing.outputs import Outputs
from rowtide.testing.pipeline import pipeline_text
from rowtide.testing.relations import Relations
from rowtide.testing.rows import InputRow, Shape
from rowtide.testing.scenario import Insert, InsertRaw, Scenario, SetBound, SqlText
from rowtide.testing.source_log import Bounds, Entry, Rows, SourceLog


class Recovery(Enum):
    """How a stopped pipeline comes back to its last commit."""

    SNAPSHOT = "snapshot"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Committed:
    """What the last commit holds: a place in the log, the state there, and how much had come out."""

    entries: int = 0
    snapshot: dict[str, State] | None = None
    counts: dict[str, int] = field(default_factory=dict)


class LiveRunner:
    """See ``ScenarioRunner``.

    Raises:
      StatementError: if the pipeline is refused.
    """

    def __init__(
        self, scenario: Scenario, batching: Batching, recovery: Recovery = Recovery.SNAPSHOT
    ) -> None:
        self._scenario = scenario
        self._batching = batching
        self._recovery = recovery
        self._wall = scenario.day.start
        self._log = SourceLog()
        pipeline = pipeline_text(scenario)
        self._session, self._relations = self._planned(pipeline)
        self._entrance = Entrance(self._relations, self._log)
        self._wanted = self._wanted_nodes()
        self._partitions = self._relations.partitions(self._mentioned_partitions())
        sources = {name: (name,) for name in self._wanted} | self._relations.targets() | {ERRORS: ()}
        self._outputs = Outputs(sources)
        self._committed: Committed | None = None
        self._faults: list[Fault] = []
        self._flow = self._fresh_flow()
        self._record(self._flow.drain())

    def fold(self, name: str) -> str:
        """See ``ScenarioRunner``."""
        return fold(name)

    def shape(self, relation: str) -> Shape:
        """See ``ScenarioRunner``."""
        return self._relations.shape(relation)

    def insert(self, relation: str, partition: int, rows: Sequence[InputRow]) -> None:
        """See ``ScenarioRunner``."""
        name = self._relations.resolve(relation)
        self._take_in(self._entrance.rows(name, partition, rows, self._wall))

    def insert_raw(
        self, relation: str, partition: int, messages: Sequence[bytes | None], at: int | None
    ) -> None:
        """See ``ScenarioRunner``."""
        name = self._relations.resolve(relation)
        self._take_in(self._entrance.messages(name, partition, messages, self._wall if at is None else at))

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        """See ``ScenarioRunner``."""
        name = self._relations.resolve(relation)
        partitions = self._relations.bounded_partitions(name, self._partitions)
        entry = Bounds(name, partitions if partition is None else (partition,), Bound(rowtime))
        try:
            self._record(*self._fed(entry))
        except BoundRegressionError:
            # Of several partitions some may have taken it: back to the last commit, and on to here.
            self._recover()
            raise
        self._log.entries.append(entry)

    def sql(self, text: str) -> None:
        """See ``ScenarioRunner``."""
        raise StatementError("statements between other steps are not supported yet", text=text)

    def advance_wallclock(self, millis: int) -> None:
        """See ``ScenarioRunner``."""
        self._wall += millis

    def commit(self) -> None:
        """See ``ScenarioRunner``; also checks that every row is accounted for."""
        self._flow.check()
        topics = self._relations.topics()
        self._outputs.append(ERRORS, error_givens(self._faults, self._flow.source_of, topics, self._log))
        self._faults = []
        snapshot = self._flow.snapshot() if self._recovery is Recovery.SNAPSHOT else None
        self._committed = Committed(len(self._log.entries), snapshot, self._outputs.counts())

    def crash(self) -> None:
        """See ``ScenarioRunner``."""
        self._recover()

    def restart(self) -> None:
        """See ``ScenarioRunner``."""
        self.commit()
        self._recover()

    def output(self, relation: str) -> list[Given]:
        """See ``ScenarioRunner``."""
        self.commit()
        return self._outputs.take(self._relations.resolve(relation))

    def contents(self, relation: str) -> list[Row]:
        """See ``ScenarioRunner``."""
        name = self._relations.resolve(relation)
        return self._outputs.contents(name, self._relations.key(name))

    def close(self) -> None:
        """See ``ScenarioRunner``; there is nothing to give back."""

    def _planned(self, pipeline: SqlText) -> tuple[Session, Relations]:
        """Plan the pipeline; what steps insert into has a producer of its own beside pumps and INSERTs."""
        steps = self._scenario.steps
        inserted = {step.relation for step in steps if isinstance(step, Insert | InsertRaw)}
        session, relations = _session(pipeline, inserted)
        # A bound on what only pumps feed speaks of one more producer too.
        bounded = {step.relation for step in steps if isinstance(step, SetBound)}
        missing = {name for name in bounded if relations.has_no_clock(name)}
        return _session(pipeline, inserted | missing) if missing else (session, relations)

    def _resolved(self, names: Iterable[str]) -> dict[str, str]:
        """Give catalog names by names as written; a name that no relation has is left out."""
        found = {}
        for name in names:
            try:
                found[name] = self._relations.resolve(name)
            except StatementError:
                # The step that names it is refused when it is reached.
                continue
        return found

    def _wanted_nodes(self) -> dict[str, Node]:
        """Give the nodes of what the steps look at or feed, and of what runs whoever looks."""
        observed = dict.fromkeys(self._resolved(self._scenario.observed()).values())
        fed = self._resolved(self._scenario.mentioned()).values()
        # A foreign stream that is only fed is not thereby read: it judges nothing itself.
        also = [name for name in fed if self._relations.foreign_stream(name) is None]
        return self._relations.wanted([*observed, *also], with_unread=ERRORS in observed)

    def _mentioned_partitions(self) -> dict[str, set[int]]:
        mentioned = self._scenario.mentioned()
        found: dict[str, set[int]] = {}
        for written, name in self._resolved(mentioned).items():
            found.setdefault(name, set()).update(mentioned[written])
        return found

    def _fresh_flow(self) -> Flow:
        return Flow(self._wanted, self._partitions)

    def _take_in(self, entry: Rows) -> None:
        self._log.entries.append(entry)
        self._record(*self._fed(entry))

    def _fed(self, entry: Entry) -> list[Emitted]:
        """Feed one entry of the log, cut into trays, and give what came out of each."""
        if isinstance(entry, Bounds):
            for partition in entry.partitions:
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
        """Keep what one step gave."""
        trays: dict[str, list[Tray]] = {}
        for each in emitted:
            for name, given in each.outputs.items():
                trays.setdefault(name, []).extend(given)
        self._outputs.add(trays)
        self._faults += settled(fault for each in emitted for fault in each.faults)

    def _recover(self) -> None:
        """Go back to the last commit with a fresh flow, and work off again what came since."""
        committed = self._committed
        self._faults = []
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


def _session(pipeline: SqlText, inserted: Iterable[str]) -> tuple[Session, Relations]:
    names = set()
    for name in inserted:
        # What is no name is refused by the step that has it.
        with suppress(StatementError):
            names.add(relation_name(name))
    session = Session(inserted=names)
    return session, Relations(session.feed(pipeline.text, file=pipeline.file))


def _signed(tray: Tray, origin: int) -> Tray:
    return replace(tray, origin=np.full(len(tray), origin, dtype=np.int32))


def live_runner(scenario: Scenario, batching: Batching) -> LiveRunner:
    """Make the runner that ``--runner live`` names."""
    return LiveRunner(scenario, batching)
