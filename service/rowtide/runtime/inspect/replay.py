"""``replay --compare``: recompute the committed rows, and report differences.

See docs/sql/semantics.md#replay.

The log is read again from the first offsets of the pipeline up to the committed
positions, and tables are compared as multisets at those positions, on disk
(``replay_tables``). Rows that the database has refused are in the error stream,
and are expected in no table. If the log no longer reaches back that far, the
replay starts from the newest snapshot, and ``begin_ms`` must leave out earlier
rows. Nothing is written and no epoch is taken: a running service continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest

import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, PartitionId, Record
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import Plan
from rowtide.rows.rowop import Row
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.rowtime.text import time_text
from rowtide.runtime.change.applying import refuse_changed_streams, streams_of_both
from rowtide.runtime.ingest.intake import check_identity
from rowtide.runtime.inspect.replay_tables import ComparedTable, Refused, scratch
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.begin import refuse_another_plan
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.runtime.recovery.recovery import (
    begin_of_replay,
    check_ranges,
    flow_at,
    logged,
    partitions_of,
    positions_of_others,
    replay,
    usable,
)
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.output import Writes, target_table
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.topics import adopt_topics, known_ids
from rowtide_connectors.api import OffsetRange

MAX_DIFFERENCES = 20
"""Maximum number of differences that are reported one by one. The count includes all."""

OffsetRanges = Mapping[PartitionId, tuple[int, int]]
"""First and last offset by partition."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class Range:
    """Range of the comparison: rows with a time from ``begin_ms`` (inclusive) to ``end_ms`` (exclusive)."""

    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Return whether the range contains all rows."""
        return self.begin_ms is None and self.end_ms is None


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """One difference. ``committed`` or ``recomputed`` is None if the row is missing there.

    ``offsets`` are those of the recomputed row: of its message, or of what was read when it came out.
    """

    table: str
    committed: Row | None
    recomputed: Row | None
    offsets: OffsetRanges


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """The result. ``differences`` are the first ones in order of output, ``count`` counts all."""

    rows: Mapping[str, int]
    messages: int
    positions: Mapping[PartitionId, int]
    differences: tuple[ReplayDifference, ...]
    count: int


def compare(
    context: PipelineContext,
    compared: Range,
    on_row: Callable[[str, Row], None] | None = None,
    older: Plan | None = None,
) -> ReplayComparison:
    """Recompute and compare the tables of a pipeline; nothing is written.

    With ``on_row`` no rows are compared: it is called with each recomputed row and the name of its table.
    ``older`` is the plan that ran, if it differs from the context's plan: then the committed rows are
    compared with those that the context's plan would have written from the beginning. Tables that it
    would create count as empty, streams that only it reads are read to their current ends.

    Raises:
      StatementError: nothing is committed, the plan is another one, a table has no column of time to
        restrict it by, or the log no longer holds what is needed.
      UnavailableError: a dependency is down.
    """
    fields = _time_fields(context.plan, compared)
    for source in context.sources.values():
        if source.is_compacted():
            raise StatementError(
                f'topic "{source.topic}" is compacted: a replay would not find the same messages',
                hint="Its earlier output is only in the tables and in the state.",
            )
    with scratch() as connection:
        tables = {
            table.name: ComparedTable(connection, number, table, fields.get(table.name), Refused())
            for number, table in enumerate(context.plan.foreign_tables)
        }
        record = _committed(context, tables)
        adopt_topics(context.sources, record)
        refuse_another_plan(context.name, record, plan_digests(older or context.plan))
        if older is not None:
            refuse_changed_streams(older, context.plan)
            record = _as_read_by(context, record)
        return _recomputed(context, compared, record, tables, on_row, older)


def _recomputed(
    context: PipelineContext,
    compared: Range,
    record: Record,
    tables: Mapping[str, ComparedTable],
    on_row: Callable[[str, Row], None] | None,
    older: Plan | None,
) -> ReplayComparison:
    """Recompute what the tables should hold, and compare."""
    identities = known_ids(record.partition_positions)
    for relation, source in context.sources.items():
        check_identity(source, identities.get(relation))
    ranges = {relation: source.ranges() for relation, source in context.sources.items()}
    flow, snapshot = _begin(context, record, ranges, compared, older)
    work = PipelineState(flow, context.plan.targets, record.partition_positions, sends=False)
    turns = _Turns(work, tables)
    if snapshot is None:
        work.drain()
        turns.emit()
    messages = replay(
        PipelineIO(context),
        work,
        begin_of_replay(record, snapshot),
        record.positions(),
        decisions=logged(context.ledger, record),
        emit=turns.emit,
    )
    between = (compared.begin_ms, compared.end_ms)
    count = 0
    if on_row is not None:
        for name, table in tables.items():
            for row in table.rows(*between):
                on_row(name, row)

    def found() -> Iterator[ReplayDifference]:
        nonlocal count
        for name, table in tables.items():
            for held, wanted, turn in table.differences(*between):
                count += 1
                yield ReplayDifference(name, held, wanted, {} if turn is None else turns.offsets(turn))

    first = nsmallest(MAX_DIFFERENCES, found() if on_row is None else (), key=_last_offset)
    rows = {name: table.count(*between) for name, table in tables.items()}
    return ReplayComparison(rows, messages, record.positions(), tuple(first), count)


def _last_offset(difference: ReplayDifference) -> int:
    return min((last for _, last in difference.offsets.values()), default=LATEST)


class _Turns:
    """Collects the output of each turn, and records the offsets that were read in it."""

    def __init__(self, state: PipelineState, tables: Mapping[str, ComparedTable]) -> None:
        self._work = state
        self._tables = tables
        self._positions: list[dict[PartitionId, int]] = []

    def emit(self) -> None:
        """Take the output since the last turn."""
        turn = len(self._positions)
        self._positions.append(dict(self._work.positions))
        for name, output in self._work.outputs.items():
            writes = output.take()
            if isinstance(writes, Writes):
                self._tables[name].apply(writes.tray.rows(), turn)
        self._work.drop()

    def offsets(self, turn: int) -> OffsetRanges:
        """Return the offsets that were read in a turn."""
        before = self._positions[turn - 1] if turn else {}
        return {
            place: (before.get(place, 0), offset - 1)
            for place, offset in self._positions[turn].items()
            if offset > before.get(place, 0)
        }


def _time_fields(plan: Plan, compared: Range) -> dict[str, int]:
    """Return the time field of each table. All pumps must agree on it, and a restricted comparison needs one.

    Raises:
      StatementError: a table has none, and the comparison is restricted by time.
    """
    fields: dict[str, int] = {}
    for pump in plan.pumps:
        field = pump.rowtime_field
        if field is None or fields.get(pump.target, field) != field:
            if not compared.is_everything:
                raise StatementError(
                    f'table "{pump.target}" has no column that ROWTIME feeds: it cannot be compared by time',
                    hint="Leave out --from and --to.",
                )
            continue
        fields[pump.target] = field
    return fields


def _committed(context: PipelineContext, tables: Mapping[str, ComparedTable]) -> Record:
    """Read record and tables in one consistent state.

    Raises:
      StatementError: nothing is committed.
    """
    missing = context.database.missing([target_table(table.table) for table in tables.values()])
    with context.database.begin_read_only() as transaction:
        record = context.ledger.read_within(transaction)
        if record is None or not record.has_begun:
            raise StatementError(f'pipeline "{context.name}" has committed nothing to compare')
        for name, table in tables.items():
            if name in missing:
                continue
            target = target_table(table.table)
            table.hold(transaction.rows(target), transaction.form_of(target))
            table.leave_out(context.ledger.refused_within(transaction, table.table.name))
    return record


def _begin(
    context: PipelineContext,
    record: Record,
    ranges: Mapping[str, Mapping[int, OffsetRange]],
    compared: Range,
    older: Plan | None,
) -> tuple[Flow, KeptSnapshot | None]:
    """Choose the start, and return the flow there: None for the log's start, else a snapshot.

    Raises:
      StatementError: neither is early enough.
    """
    nodes, resubmissions = table_nodes(context.plan), context.ledger.resubmissions()
    try:
        check_ranges(record, begin_of_replay(record, None), ranges)
    except StatementError as gone:
        snapshot = usable(context.ledger.newest_snapshot(), record)
        if snapshot is None:
            raise
        check_ranges(record, begin_of_replay(record, snapshot), ranges)
        if older is None:
            flow = flow_at(nodes, record, snapshot, resubmissions)
        else:
            flow = Flow(nodes, partitions_of(record.positions()))
            before = flow_at(table_nodes(older), record, snapshot, resubmissions)
            flow.succeed(before, streams_of_both(older, context.plan))
        # No later row was in the tables when the snapshot was taken.
        reached = max(
            (bound for bound in flow.bounds().values() if bound not in (EARLIEST, LATEST)), default=EARLIEST
        )
        if compared.begin_ms is None or compared.begin_ms < reached:
            raise StatementError(
                f"{gone.message}; the stored snapshot covers rows from {time_text(reached)} on",
                hint=f'Compare with --from "{time_text(min(reached, MAX_TIMESTAMP_MS))}" or later.',
            ) from gone
        return flow, snapshot
    if older is not None:
        # The targets of resubmitted rows may no longer exist.
        record = replace(record, changed_at=record.commits)
    return flow_at(nodes, record, None, resubmissions), None


def _as_read_by(context: PipelineContext, record: Record) -> Record:
    """Return a record as if the context's plan had run and read its new streams to their ends."""
    known = {each.relation for each in record.partition_positions}
    kept = [each for each in record.partition_positions if each.relation in context.sources]
    begun = positions_of_others(context, known, lambda held: held.end)
    return replace(record, partition_positions=(*kept, *begun))
