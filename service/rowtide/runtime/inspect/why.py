"""The answer to "why is this row there?": the messages, operators and decisions that led to it (law 7).

Rows carry no lineage. The log is read again up to the committed positions, once
for each operator that makes rows of several others, and the output of the steps
is searched for the input of the row (``flow.lineage``). The output is the same
as the first time, because nothing depends on when or how rows arrive. Nothing is
written and no epoch is taken: a running service continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rowtide.checkpoint.ledger import CUT, Decision, KeptSnapshot, PartitionId, Record, is_resubmission
from rowtide.errors import StatementError, UnknownRelationError
from rowtide.flow.flow import Flow
from rowtide.flow.lineage import Back, Lineage, Search
from rowtide.flow.table_changes import number_of
from rowtide.flow.why_not import Keeper
from rowtide.plan.nodes import Model, Sort, TableSource
from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST
from rowtide.rowtime.text import time_text
from rowtide.runtime.ingest.idle import DecisionLog
from rowtide.runtime.ingest.intake import Delivery, ExplicitBound, check_identity
from rowtide.runtime.inspect.why_answer import (
    ExplanationAnswer,
    InputAnswer,
    MadeOfAnswer,
    ReleaseAnswer,
    RowQuestion,
)
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.query.contents import plain
from rowtide.runtime.recovery.begin import refuse_another_plan
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.runtime.recovery.recovery import (
    begin_of_replay,
    check_ranges,
    flow_at,
    replay,
    usable,
)
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.topics import adopt_topics, known_ids
from rowtide_connectors.several import place_of

MAX_FOLLOWED = 1_000
"""Maximum number of input rows of a row that are followed further back."""
MAX_PASSES = 24
"""Maximum number of reads of the log: two for each operator on the longest path."""


def why(
    context: PipelineContext, relation: str, wanted: RowQuestion, *, limit_s: float | None = None
) -> ExplanationAnswer:
    """Return the origin of a row of a relation (its catalog name).

    Raises:
      StatementError: the relation or row does not exist, the log no longer holds what is needed, or reading it
        takes more than ``limit_s`` seconds.
      UnavailableError: a dependency is down.
    """
    return _Asked(context, relation, wanted, limit_s).answer()


@dataclass(slots=True)
class _Item:
    """A row that is followed back: an output row of step ``at``."""

    at: int
    row: TimedRow
    leads: bool = False
    """True if its rowtime is that of the result row, so both waited for the same bounds."""


class _Asked:
    """One question, while the log is read again and again."""

    def __init__(
        self, context: PipelineContext, relation: str, wanted: RowQuestion, limit_s: float | None
    ) -> None:
        self._context = context
        self._limit_s = limit_s
        self._began = context.clock.monotonic()
        self._relation = relation
        self._wanted = wanted
        self._io = PipelineIO(context)
        self._nodes = table_nodes(context.plan)
        self._record, self._snapshot = self._begin()
        self._begins = begin_of_replay(self._record, self._snapshot)
        self._decisions = [each for each in context.ledger.decisions() if each.kind != CUT]
        self._changes = context.ledger.statements().applied(0, self._record.commits)
        self._resubmissions = context.ledger.resubmissions()
        self._messages = 0
        flow = self._flow()
        self._first = flow
        self._program = flow.program
        self._enquiry = flow.enquiry()
        self._lineage = Lineage(flow.program)
        self._path: dict[int, None] = {}
        self._made: list[MadeOfAnswer] = []
        self._needs: dict[Keeper, None] = {}
        self._entered: set[tuple[int, int]] = set()
        self._notes: dict[str, None] = {}

    def answer(self) -> ExplanationAnswer:
        """Read, search, and return what was found."""
        roots = self._roots()
        found = self._read([self._outermost(at) for at in roots])
        rows = [(search.at, search.rows[-1]) for search in found if search.rows]
        if not rows:
            raise self._no_such_row()
        at, row = max(rows, key=lambda each: each[1].rowtime)
        waiting = [_Item(at, row, leads=True)]
        seen = {(at, row)}
        for _ in range(MAX_PASSES):
            if not waiting:
                break
            searches = [pair for item in waiting for pair in self._expand(item)]
            if not searches:
                break
            self._read([search for _, search in searches])
            waiting = []
            for item, search in searches:
                self._tell(item, search)
                for each in search.rows:
                    if (search.at, each) not in seen and len(seen) < MAX_FOLLOWED:
                        seen.add((search.at, each))
                        leads = item.leads and self._is_same(search, each, item.row)
                        waiting.append(_Item(search.at, each, leads))
                    elif len(seen) >= MAX_FOLLOWED:
                        self._notes[f"Only {MAX_FOLLOWED} rows were followed back to their messages."] = None
        inputs, releases = self._inputs_and_releases()
        return ExplanationAnswer(
            self._context.name,
            self._relation,
            self._shown(at, row),
            _known(row.rowtime),
            sum(search.matched for search in found),
            tuple(self._name(each) for each in self._path),
            tuple(self._made),
            tuple(inputs),
            tuple(releases),
            tuple(self._obeyed(inputs, releases)),
            self._messages,
            tuple(self._notes),
            self._since(),
        )

    # ------------------------------------------------------------ where to begin, and what is asked

    def _begin(self) -> tuple[Record, KeptSnapshot | None]:
        """Return the committed record, and the snapshot to begin at if the log does not reach back."""
        context = self._context
        nodes = dict(context.plan.relations)
        if self._relation not in nodes and self._relation not in self._nodes:
            raise UnknownRelationError(
                f'relation "{self._relation}" does not exist in pipeline "{context.name}"',
                hint="Write the name as in SQL; a foreign table must be written to by a pump.",
            )
        record = context.ledger.read()
        if record is None or not record.has_begun:
            raise StatementError(f'pipeline "{context.name}" has committed nothing yet')
        refuse_another_plan(context.name, record, plan_digests(context.plan))
        adopt_topics(context.sources, record)
        identities = known_ids(record.partition_positions)
        for relation, source in context.sources.items():
            if source.is_compacted():
                raise StatementError(
                    f'topic "{source.topic}" is compacted: a replay would not find the same messages',
                    hint="Its earlier output is only in the tables and in the state.",
                )
            check_identity(source, identities.get(relation))
        ranges = {relation: source.ranges() for relation, source in context.sources.items()}
        try:
            check_ranges(record, begin_of_replay(record, None), ranges)
        except StatementError:
            snapshot = usable(context.ledger.newest_snapshot(), record)
            if snapshot is None:
                raise
            check_ranges(record, begin_of_replay(record, snapshot), ranges)
            return record, snapshot
        return record, None

    def _roots(self) -> list[int]:
        node = dict(self._context.plan.relations).get(self._relation)
        roots = self._enquiry.roots(self._relation, node)
        if not roots:
            raise StatementError(
                f'no started pump that ends in a foreign table reads "{self._relation}", so it has no rows',
                hint="CREATE PUMP .. STARTED AS INSERT INTO a foreign table creates one.",
            )
        return roots

    def _outermost(self, at: int) -> Search:
        wanted = self._wanted

        def matches(row: TimedRow) -> bool:
            return row.opcode != Opcode.DELETE and all(
                row.row[at] == value for at, value in wanted.values.items()
            )

        time = wanted.rowtime
        if time is None:
            return Search(at, at, SourceRows(0, matches, last=1))
        return Search(at, at, SourceRows(0, matches, begin=time, end=time, last=1))

    def _no_such_row(self) -> StatementError:
        if self._snapshot is not None:
            return StatementError(
                f'no such row was written by "{self._relation}" since the oldest offset that can be read '
                "again: the log no longer holds earlier messages",
                hint="Kafka deletes by the records' own timestamps: set retention.ms=-1 on a topic with old event "
                "times.",
            )
        return StatementError(
            f'no such row was written by "{self._relation}" up to the committed positions',
            hint="`rowtide explain --why-not` explains missing rows. Name a row by its columns, as JSON.",
        )

    # ----------------------------------------------------------------------------- following back

    def _expand(self, item: _Item) -> Iterable[tuple[_Item, Search]]:
        """Return the next searches for a row, and note its path."""
        found: list[tuple[_Item, Search]] = []
        for back in self._lineage.back(item.at, item.row):
            self._path.update(dict.fromkeys(back.path))
            if item.leads:
                self._note_waits(back, item.row)
            step = self._program.steps[back.step]
            if step.is_source:
                self._entered.add((back.step, item.row.counter))
            elif back.step != item.at:
                found.append((item, self._lineage.locate(back.step, item.row)))
            else:
                found += [(item, search) for search in self._lineage.searches(item.at, item.row)]
        return found

    def _tell(self, item: _Item, search: Search) -> None:
        """Note the inputs from which an operator made a row."""
        if search.step == search.at:
            return
        step = self._program.steps[search.step]
        self._path[search.step] = None
        self._made.append(
            MadeOfAnswer(
                step.node.relation,
                self._name(search.step),
                _known(item.row.rowtime),
                self._shown(search.step, item.row),
                search.count,
                tuple(self._offsets(search.rows)),
                step.node.lineage_note,
            )
        )

    def _is_same(self, search: Search, row: TimedRow, made: TimedRow) -> bool:
        """Return whether ``row`` and the row made of it waited for the same bounds."""
        if isinstance(self._program.steps[search.step].node, Model):
            return True
        return (row.origin, row.counter) == (made.origin, made.counter)

    def _note_waits(self, back: Back, row: TimedRow) -> None:
        """Note the bounds that a row waited for since it entered or was made."""
        for at in back.path:
            step, feeders = self._program.steps[at], self._lineage.feeders.get(at, {})
            is_made = at == back.step and not step.is_source and row.origin == step.place.origin
            known = step.node.released_by(row, back.ports.get(at, 0), len(feeders))
            needs: list[tuple[int, int]] = []
            if isinstance(step.node, Sort):
                needs = [(at, row.rowtime)]
            elif known is not None:
                needs = [(feeders[port], bound) for port, bound in known]
            elif is_made:
                # The row of a window comes when no more row of its rowtime can come.
                closes = not isinstance(step.node, Model)
                needs = self._enquiry.wants(at, row.rowtime + closes)
            for feeder, bound in needs:
                self._needs.update(dict.fromkeys(self._enquiry.keepers(feeder, bound)))

    # ----------------------------------------------------------------- messages, bounds, decisions

    def _inputs_and_releases(self) -> tuple[list[InputAnswer], list[ReleaseAnswer]]:
        """Read the log again, for the rows of messages and for the origins of the bounds."""
        wanted: dict[int, set[int]] = {}
        for at, counter in self._entered:
            wanted.setdefault(at, set()).add(counter)
        searches = {
            at: Search(at, at, SourceRows(0, _numbered(counters), last=len(counters)))
            for at, counters in wanted.items()
        }
        needed = self._most_needed()
        moved = {keeper: self._moves(keeper) for keeper in needed}
        bounds: list[tuple[PartitionId, ExplicitBound]] = []
        self._read([*searches.values(), *(each for each in moved.values() if each is not None)], bounds)
        inputs = [self._input(search.at, row) for search in searches.values() for row in search.rows]
        inputs.sort(key=lambda each: (each.relation, each.topic or "", each.partition, each.offset))
        releases = [self._release(keeper, search, bounds) for keeper, search in moved.items()]
        known = [each for each in releases if each is not None]
        return inputs, sorted(known, key=lambda each: (each.relation, each.partition, each.clock))

    def _most_needed(self) -> list[Keeper]:
        """Return the greatest bound that was needed of each partition and clock."""
        most: dict[tuple[str, int, str], Keeper] = {}
        loaded = {
            step.node.relation
            for step in self._program.steps
            if isinstance(step.node, TableSource) and step.node.loaded_once
        }
        for keeper in self._needs:
            place = (keeper.relation, keeper.partition, keeper.clock)
            held = most.get(place)
            if keeper.relation in loaded or keeper.needs is None or keeper.needs == EARLIEST:
                continue
            if is_resubmission((keeper.relation, keeper.partition)):
                continue
            if held is None or held.needs is None or held.needs < keeper.needs:
                most[place] = keeper
        return list(most.values())

    def _moves(self, keeper: Keeper) -> Search | None:
        """Search for the first row that moved a partition's clock far enough."""
        for at, step in self._program.sorts():
            if step.node.relation == keeper.clock and step.partition in (None, keeper.partition):
                feeder = self._lineage.feeders[at][0]
                origins = self._program.steps[feeder].origins
                source = self._program.entrances.get((keeper.relation, keeper.partition))
                if source is None or self._program.steps[source].place.origin in origins:
                    needs = keeper.row_needs if keeper.row_needs is not None else keeper.needs
                    assert needs is not None
                    return Search(feeder, at, SourceRows(0, lambda _row: True, begin=needs, first=True))
        return None

    def _release(
        self, keeper: Keeper, search: Search | None, bounds: Sequence[tuple[PartitionId, ExplicitBound]]
    ) -> ReleaseAnswer | None:
        """Return the origin of a bound: the first one in the partition's log."""
        place = (keeper.relation, keeper.partition)
        needs = keeper.needs
        assert needs is not None
        found: list[tuple[int, int, str]] = []
        if search is not None and search.rows:
            (row,) = search.rows
            source = self._first.source_of(row.origin)
            if source == place:
                found.append((row.counter, 1, "ROW"))
            elif source is not None:
                # A clock of a merged stream: another partition's row moved it.
                return None
        found += [
            (mark.offset, 1, "BOUND") for at, mark in bounds if at == place and mark.bound.rowtime >= needs
        ]
        found += [
            (each.next_offset, 0, each.kind)
            for each in self._decisions_of(place)
            if each.bound is not None and each.bound >= needs
        ]
        offset, _, by = min(found, default=(None, 0, None))
        return ReleaseAnswer(*self._topic(place), keeper.clock, needs, by, offset)

    def _obeyed(
        self, inputs: Sequence[InputAnswer], releases: Sequence[ReleaseAnswer]
    ) -> Iterable[dict[str, object]]:
        """Yield the logged decisions that the row needed, after it in its partitions."""
        reached: dict[PartitionId, int] = {}
        for relation, partition, offset in (
            *((each.relation, each.partition, each.offset) for each in inputs),
            *((each.relation, each.partition, each.offset) for each in releases if each.offset is not None),
        ):
            reached[relation, partition] = max(reached.get((relation, partition), offset), offset)
        for place, offset in sorted(reached.items()):
            for each in self._decisions_of(place):
                if each.next_offset <= offset:
                    yield {
                        "kind": each.kind,
                        "relation": each.relation,
                        "partition": each.partition,
                        "next_offset": each.next_offset,
                        "bound": each.bound,
                    }

    def _decisions_of(self, partition: PartitionId) -> list[Decision]:
        return [each for each in self._decisions if (each.relation, each.partition) == partition]

    def _input(self, at: int, row: TimedRow) -> InputAnswer:
        step = self._program.steps[at]
        place = (step.node.relation, step.partition or 0)
        named = self._shown(at, row)
        if is_resubmission(place):
            first = self._io.resubmitted(place)[row.counter].row
            self._notes[f"Resubmission {place[1]}: its rows are explained by their first messages."] = None
            if first.partition is not None and first.offset is not None:
                return InputAnswer(place[0], first.topic, first.partition, first.offset, row.rowtime, named)
        relation, topic, partition = self._topic(place)
        if topic is None and (number := number_of(row.counter)):
            self._notes[
                f'A row of "{relation}" is from the statement with number {number} in the checkpoint\'s table '
                "statements."
            ] = None
        return InputAnswer(relation, topic, partition, row.counter, _known(row.rowtime), named)

    def _topic(self, partition: PartitionId) -> tuple[str, str | None, int]:
        source = self._context.sources.get(partition[0])
        if source is None:
            return partition[0], None, partition[1]
        return partition[0], place_of(source.topic, partition[1])[0], partition[1]

    def _offsets(self, rows: Iterable[TimedRow]) -> Iterable[dict[str, object]]:
        reached: dict[PartitionId, list[int]] = {}
        for row in rows:
            place = self._first.source_of(row.origin)
            if place is not None:
                reached.setdefault(place, []).append(row.counter)
        for place, offsets in sorted(reached.items()):
            relation, topic, partition = self._topic(place)
            yield {
                "relation": relation,
                "topic": topic,
                "partition": partition,
                "first": min(offsets),
                "last": max(offsets),
            }

    def _since(self) -> tuple[dict[str, object], ...]:
        if self._snapshot is None:
            return ()
        return tuple(
            {"relation": relation, "partition": partition, "next_offset": offset}
            for (relation, partition), offset in sorted(self._begins.items())
        )

    def _name(self, at: int) -> str:
        step = self._program.steps[at]
        partition = "" if step.partition is None else f"[{step.partition}]"
        return f"{step.node.relation}{partition} {type(step.node).__name__}"

    def _shown(self, at: int, row: TimedRow) -> dict[str, object]:
        """Return a row as plain values by name, times as text."""
        fields = self._program.steps[at].node.row_type
        return {
            field.name: time_text(value)
            if field.type.is_timestamp and isinstance(value, int)
            else plain(value)
            for field, value in zip(fields, row.row, strict=True)
        }

    # ------------------------------------------------------------------------------------- reading

    def _flow(self) -> Flow:
        return flow_at(self._nodes, self._record, self._snapshot, self._resubmissions)

    def _read(
        self, searches: Sequence[Search], bounds: list[tuple[PartitionId, ExplicitBound]] | None = None
    ) -> Sequence[Search]:
        """Read the log again, and pass the output of the steps to the searches."""
        looking = _by_step(searches)

        def watch(at: int, tray: Tray) -> None:
            for search in looking.get(at, ()):
                search.see(tray)

        flow = self._flow()
        flow.watch(watch)
        work = _Noting(flow, self._context, self._record, bounds)
        if self._snapshot is None:
            work.drain()
            work.drop()
        self._messages += replay(
            self._io,
            work,
            self._begins,
            self._record.positions(),
            decisions=DecisionLog(self._decisions, self._changes),
            progress=self._check_time,
        )
        return searches

    def _check_time(self, _messages: int) -> None:
        """Check that there is time left.

        Raises:
          StatementError: there is none.
        """
        limit_s = self._limit_s
        if limit_s is not None and self._context.clock.monotonic() - self._began > limit_s:
            raise StatementError(
                f"the row is not explained within {limit_s:g} s: the log is read again for it",
                hint="Set limits.why_s to a longer time.",
            )


class _Noting(PipelineState):
    """Notes explicit bounds where they enter."""

    def __init__(
        self,
        flow: Flow,
        context: PipelineContext,
        record: Record,
        bounds: list[tuple[PartitionId, ExplicitBound]] | None,
    ) -> None:
        super().__init__(flow, context.plan.targets, record.partition_positions)
        self._bounds = bounds

    def enter(self, delivery: Delivery) -> None:
        if self._bounds is not None:
            place = (delivery.relation, delivery.partition)
            marks = (part for part in delivery.parts if isinstance(part, ExplicitBound))
            self._bounds += [(place, mark) for mark in marks]
        super().enter(delivery)


def _by_step(searches: Iterable[Search]) -> dict[int, list[Search]]:
    found: dict[int, list[Search]] = {}
    for search in searches:
        found.setdefault(search.at, []).append(search)
    return found


def _numbered(counters: set[int]) -> Callable[[TimedRow], bool]:
    return lambda row: row.counter in counters


def _is_there(value: object) -> bool:
    return value is not None


def _known(rowtime: int) -> int | None:
    return None if rowtime == EARLIEST else rowtime
