"""``replay --compare``: recompute what was committed, and say where it differs (sql-decisions 28).

The log is read again from where the pipeline began, up to the committed
positions, into memory, and tables are compared as multisets at those positions.
Where the log no longer reaches back so far, the newest snapshot will do for
rows that came out after it, and ``begin_ms`` must leave out the others. Nothing
is written and no epoch is taken: a service that runs goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, Place, Record
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignTable, Plan
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.runtime.begin import refuse_another_plan
from rowtide.runtime.digest import plan_digests
from rowtide.runtime.idle import DecisionLog
from rowtide.runtime.output import target_table
from rowtide.runtime.recovery import begin_of_replay, check_ranges, flow_at, replay, usable
from rowtide.runtime.service import Equipment, Service
from rowtide.runtime.work import Work
from rowtide_connectors.api import OffsetRange

MAX_DIFFERENCES = 20
"""Differences that are told one by one; how many there are is told in any case."""

Offsets = Mapping[Place, tuple[int, int]]
"""First and last offset by partition."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class Range:
    """What is compared: rows whose time lies from ``begin_ms`` (inclusive) to ``end_ms`` (exclusive)."""

    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Tell whether nothing is left out."""
        return self.begin_ms is None and self.end_ms is None

    def holds(self, time_ms: object) -> bool:
        """Tell whether a row of this time is compared; one without a time is not."""
        if not isinstance(time_ms, int):
            return self.is_everything
        return (self.begin_ms is None or time_ms >= self.begin_ms) and (
            self.end_ms is None or time_ms < self.end_ms
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not the same; ``committed`` or ``recomputed`` is None where there is none.

    ``offsets`` are those behind the recomputed row: the message's, or what was read when it came out.
    """

    table: str
    committed: Row | None
    recomputed: Row | None
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found; ``differences`` are the first ones in order of coming out, ``count`` is all."""

    rows: Mapping[str, int]
    messages: int
    positions: Mapping[Place, int]
    differences: tuple[Difference, ...]
    count: int


def compare(equipment: Equipment, compared: Range) -> Comparison:
    """Recompute and compare the tables of a pipeline.

    Raises:
      StatementError: nothing is committed, the plan is another one, a table has no column of time to
        restrict it by, or the log no longer holds what is needed.
      UnavailableError: a dependency is down.
    """
    fields = _time_fields(equipment.plan, compared)
    record, committed = _committed(equipment, fields, compared)
    refuse_another_plan(equipment.name, record, plan_digests(equipment.plan))
    for source in equipment.sources.values():
        if source.is_compacted():
            raise StatementError(
                f'topic "{source.topic}" is compacted: a replay would not find the same messages',
                hint="What it has given is only in the tables and in the state.",
            )
    ranges = {relation: source.ranges() for relation, source in equipment.sources.items()}
    flow, snapshot = _begin(equipment, record, ranges, compared)
    work = Work(flow, equipment.plan.foreign_tables, record.standings)
    tables = {table.name: _Recomputed(table) for table in equipment.plan.foreign_tables}
    turns = _Turns(work, tables)
    if snapshot is None:
        work.drain()
        turns.emit()
    service = Service(equipment)
    channels = service.channels(flow)
    messages = replay(
        work,
        begin_of_replay(record, snapshot),
        record.positions(),
        decisions=DecisionLog(equipment.ledger.decisions()),
        channels=channels,
        open_inbox=lambda positions: service.open_inbox(positions, channels),
        crash_points=equipment.crash_points,
        stopping=equipment.stopping,
        resubmitted=service.resubmitted,
        emit=turns.emit,
    )
    found: list[Difference] = []
    count = 0
    rows = {}
    for name, table in tables.items():
        wanted = [(row, turn) for row, turn in table.rows() if compared.holds(_time(row, fields.get(name)))]
        rows[name] = len(wanted)
        differences = list(_differences(table.table, committed[name], wanted, turns))
        count += len(differences)
        found += differences
    found.sort(key=lambda each: min((last for _, last in each.offsets.values()), default=LATEST))
    return Comparison(rows, messages, record.positions(), tuple(found[:MAX_DIFFERENCES]), count)


class _Recomputed:
    """What a table would hold: rows by key, or as a multiset, each with the turn that gave it."""

    def __init__(self, table: ForeignTable) -> None:
        self.table = table
        self._keyed: dict[Row, tuple[Row, int]] = {}
        self._appended: list[tuple[Row, int]] = []

    def apply(self, rows: Iterable[TimedRow], turn: int) -> None:
        """Apply rowops in order."""
        for timed in rows:
            if not self.table.key:
                self._appended.append((timed.row, turn))
                continue
            key = tuple(timed.row[index] for index in self.table.key)
            if timed.opcode == Opcode.DELETE:
                self._keyed.pop(key, None)
            else:
                self._keyed[key] = (timed.row, turn)

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Give every row with its turn."""
        yield from self._keyed.values() if self.table.key else self._appended


class _Turns:
    """Takes what comes out, turn by turn, and remembers what had been read in each."""

    def __init__(self, work: Work, tables: Mapping[str, _Recomputed]) -> None:
        self._work = work
        self._tables = tables
        self._positions: list[dict[Place, int]] = []

    def emit(self) -> None:
        """Take what has come out since the last turn."""
        turn = len(self._positions)
        self._positions.append(dict(self._work.positions))
        for name, output in self._work.outputs.items():
            writes = output.take()
            if writes is not None:
                self._tables[name].apply(writes.tray.rows(), turn)
        self._work.drop()

    def offsets(self, turn: int) -> Offsets:
        """Give what was read in a turn."""
        before = self._positions[turn - 1] if turn else {}
        return {
            place: (before.get(place, 0), offset - 1)
            for place, offset in self._positions[turn].items()
            if offset > before.get(place, 0)
        }


def _differences(
    table: ForeignTable, committed: Counter[Row], wanted: list[tuple[Row, int]], turns: _Turns
) -> Iterator[Difference]:
    """Pair what is missing with what is too much by key; of a table without key, each stands alone."""
    left = Counter(committed)
    missing: list[tuple[Row, int]] = []
    for row, turn in wanted:
        if left[row] > 0:
            left[row] -= 1
        else:
            missing.append((row, turn))
    extra = list(left.elements())
    by_key = {tuple(row[index] for index in table.key): row for row in extra} if table.key else {}
    paired = set()
    for row, turn in missing:
        other = by_key.get(tuple(row[index] for index in table.key)) if table.key else None
        if other is not None:
            paired.add(other)
        yield Difference(table.name, other, row, turns.offsets(turn))
    for row in extra:
        if row not in paired:
            yield Difference(table.name, row, None, {})


def _time_fields(plan: Plan, compared: Range) -> dict[str, int]:
    """Give, by table, the field that tells a row's time; all must agree on it, and have one if it is needed.

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
                    hint="Leave --from and --to out.",
                )
            continue
        fields[pump.target] = field
    return fields


def _committed(
    equipment: Equipment, fields: Mapping[str, int], compared: Range
) -> tuple[Record, dict[str, Counter[Row]]]:
    """Read record and tables as they are at one moment.

    Raises:
      StatementError: nothing is committed.
    """
    with equipment.database.begin() as transaction:
        if transaction.connection.dialect.name == "postgresql":
            transaction.connection.exec_driver_sql(
                "set transaction isolation level repeatable read read only"
            )
        record = equipment.ledger.read_within(transaction)
        if record is None or not record.standings:
            raise StatementError(f'pipeline "{equipment.name}" has committed nothing that could be compared')
        tables = {}
        for table in equipment.plan.foreign_tables:
            field = fields.get(table.name)
            tables[table.name] = Counter(
                row for row in transaction.rows(target_table(table)) if compared.holds(_time(row, field))
            )
    return record, tables


def _begin(
    equipment: Equipment,
    record: Record,
    ranges: Mapping[str, Mapping[int, OffsetRange]],
    compared: Range,
) -> tuple[Flow, KeptSnapshot | None]:
    """Choose where to begin, and give the flow there: None for the log's start, else a snapshot.

    Raises:
      StatementError: neither reaches back far enough.
    """
    nodes, resubmissions = table_nodes(equipment.plan), equipment.ledger.resubmissions()
    try:
        check_ranges(record, begin_of_replay(record, None), ranges)
    except StatementError as gone:
        snapshot = usable(equipment.ledger.newest_snapshot(), record)
        if snapshot is None:
            raise
        check_ranges(record, begin_of_replay(record, snapshot), ranges)
        flow = flow_at(nodes, record, snapshot, resubmissions)
        # A row is out before this at most: what comes later was not in the tables when it was taken.
        reached = max((bound for bound in flow.bounds().values() if bound != EARLIEST), default=EARLIEST)
        if compared.begin_ms is None or compared.begin_ms < reached:
            raise StatementError(
                f"{gone.message}; the snapshot there is covers rows from {reached} ms on",
                hint=f"Compare with --from {min(reached, MAX_TIMESTAMP_MS)} or later.",
            ) from gone
        return flow, snapshot
    return flow_at(nodes, record, None, resubmissions), None


def _time(row: Row, field: int | None) -> object:
    return None if field is None else row[field]
