"""The output of a backfill: tables folded by key, and error rows with their messages, prepared by Spark.

If the database has staging tables, each task writes to its own part of them,
and the commit moves the valid parts in one step. Otherwise, and if the database
refuses a row that must then be found, the rows stay with Spark and go
through the driver in chunks. If there are few faults, the driver fetches their
messages. If there are many, Spark reads the messages again. In both cases the
driver's memory is bounded by a chunk.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rowtide.checkpoint.ledger import ErrorRow, PartitionId
from rowtide.errors import FaultError
from rowtide.operators.contract import Account, Fault
from rowtide.plan.outputs import referring_groups
from rowtide.plan.plan import ForeignTable, Plan, Server
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST
from rowtide.runners.spark.folding import Folded, FoldNote
from rowtide.runtime.pipeline import open_database
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.deadletters import RecentMessages, error_rows
from rowtide.runtime.state.output import TableOutput, Writes, target_table, values_for_target
from rowtide.runtime.state.written_order import RanksOf, WrittenOrder
from rowtide_connectors.api import Messages, StagingDatabase, StagingTable, Transaction
from rowtide_connectors.errors import GoneError, RefusedRowsError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rowtide.runners.spark.frames import SparkRun

OUTPUT_ROWS = 10_000
"""Rows of one write statement."""
FOLD_ROWS = 100_000
"""Rows of a task that are folded at once, so that a key that changes often does not fill its memory."""
FETCHED_FAULTS = 1_000
"""Maximum number of faults whose messages the driver fetches. For more, Spark reads the log again."""
STAGES = "rowtide.stage"
"""Schema and beginning of the names of staging tables; the schema is the checkpoint's."""


@dataclass(frozen=True, slots=True)
class TableFold:
    """Separates rows that a table cannot take and keeps the last rowop of each key, inside a task."""

    table: ForeignTable
    keeps_all: bool = False
    """Whether all rowops stay: their order among those of other tables counts."""

    def __call__(self, trays: Iterable[Tray]) -> Iterator[Tray | Fault]:
        """Process one task's rows."""
        output = TableOutput(self.table)
        limit = FOLD_ROWS
        for tray in trays:
            yield from output.add([tray])
            if self.keeps_all:
                taken = output.take()
                if taken is not None:
                    yield taken.tray
            if len(output) < limit:
                continue
            folded = output.fold()
            if folded is not None and self.table.key:
                yield from output.add([folded])
                # If few rows share a key, folding again soon would save nothing.
                limit = max(FOLD_ROWS, 2 * len(folded))
            elif folded is not None:
                yield folded
        folded = output.fold()
        if folded is not None:
            yield folded


@dataclass(frozen=True, slots=True)
class StagedPart:
    """The rows that one task has written to a staging table. ``trouble`` is the reason if it failed."""

    part: str
    rows: int
    refused: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class StagedFold:
    """Folds as ``TableFold`` does and writes to the staging table ``stage``, inside a task."""

    table: ForeignTable
    server: Server = field(repr=False)
    """Its options hold a password."""
    stage: str

    def __call__(self, trays: Iterable[Tray]) -> Iterator[Fault | FoldNote]:
        """Process one task's rows."""
        part, rows = uuid.uuid4().hex, 0
        try:
            for each in TableFold(self.table)(trays):
                if isinstance(each, Fault):
                    yield each
                else:
                    rows += len(each)
                    self._put(part, each)
        except RefusedRowsError as error:
            yield FoldNote(StagedPart(part, 0, refused=error.message))
        except (UnavailableError, GoneError) as error:
            # The table is gone because another backfill of this pipeline has started. The commit will fail.
            yield FoldNote(StagedPart(part, 0, trouble=error.message))
        else:
            yield FoldNote(StagedPart(part, rows))

    def _put(self, part: str, tray: Tray) -> None:
        database = open_database(self.server)
        try:
            stage = _stage_of(database, self.table, self.stage)
            if stage is None:
                raise FaultError(f'server "{self.server.name}" has no staging tables in this process')
            for start in range(0, len(tray), OUTPUT_ROWS):
                rows = tray.slice(start, min(start + OUTPUT_ROWS, len(tray)))
                gone = rows.opcode == Opcode.DELETE
                self._write(partial(stage.delete, part), rows.where(gone), self.table.key)
                self._write(partial(stage.insert, part), rows.where(~gone), range(len(self.table.row_type)))
        finally:
            database.close()

    def _write(
        self, write: Callable[[Mapping[str, Sequence[object]]], None], rows: Tray, fields: Iterable[int]
    ) -> None:
        if len(rows):
            write({self.table.row_type[each].name: values_for_target(rows.columns[each]) for each in fields})


def written_tables(plan: Plan) -> list[ForeignTable]:
    """Return the foreign tables that a pump writes to."""
    pumped = {pump.target for pump in plan.pumps}
    return [table for table in plan.foreign_tables if table.name in pumped]


def folded_keys(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return the key by which the rows of each written table are folded; none of tables that refer to one another."""
    together = _together(plan)
    return {table.name: () if table.name in together else table.key for table in written_tables(plan)}


def _together(plan: Plan) -> frozenset[str]:
    written = [table.name for table in written_tables(plan)]
    return frozenset(name for group in referring_groups(plan.foreign_tables, written) for name in group)


class TablesOutput:
    """The rows of every foreign table that a pump writes to, ready for the commit.

    Rows of tables that refer to one another go through the driver, in the order of all of them.

    Args:
      run: the result of Spark.
      context: the plan and the database.
      epoch: the epoch of the commit; it is part of the names of staging tables.
      retry: repeats what fails because the database is down.
      ranks_of: returns the ranks of the origins of a table's rows.
      staged_from: a table with fewer rows than this gets them from the driver, without a staging table.
    """

    def __init__(
        self,
        run: SparkRun,
        context: PipelineContext,
        epoch: int,
        retry: Retry,
        ranks_of: RanksOf,
        staged_from: int = 0,
    ) -> None:
        self._staged_from = staged_from
        self.counts: dict[str, int] = {}
        self._written: dict[str, Account] = {}
        self._run = run
        self._context = context
        self._retry = retry
        self._mine = f"{STAGES}_{blake2b(context.name.encode(), digest_size=6).hexdigest()}_"
        self._epoch = epoch
        self._tables = {table.name: table for table in written_tables(context.plan)}
        self._together = _together(context.plan)
        self._in_order = WrittenOrder(context.plan.foreign_tables, list(self._tables))
        self._ranks_of = ranks_of
        self._folded: dict[str, Folded] = {}
        self._staged: list[tuple[StagingTable, list[str]]] = []

    def prepare(self) -> None:
        """Write every table with Spark before the commit: to staging tables if the database has them."""
        database = self._context.database
        if isinstance(database, StagingDatabase):
            # Left over from a crashed backfill.
            self._retry.call(lambda: database.drop_stages(self._mine))
        for number, table in enumerate(self._tables.values()):
            if table.name in self._together:
                self._fold(table)
                continue
            stage = _stage_of(database, table, f"{self._mine}{self._epoch}_{number}")
            is_small = self._run.count(table.name) < self._staged_from
            if (
                is_small
                or stage is None
                or not self._put_aside(table, stage, f"{self._mine}{self._epoch}_{number}")
            ):
                self._fold(table)

    def moves(self) -> list[Callable[[Transaction], None]]:
        """Return the steps of the commit that move the staged rows."""
        return [partial(_move, stage, parts) for stage, parts in self._staged]

    def writes(self) -> Iterable[Writes]:
        """Return the rows that the commit writes itself, in chunks. Each attempt reads them again."""
        return _FoldedWrites(self)

    def refused(self) -> dict[str, int]:
        """Return the number of rows that the database has refused in the commit, by table."""
        return {name: account.rejected for name, account in self._written.items()}

    def unstage(self) -> None:
        """Fold every table without the database, because it refuses a row of a staging table."""
        self.drop()
        for table in self._tables.values():
            if table.name not in self._folded:
                self._fold(table)

    def drop(self) -> None:
        """Drop the staging tables."""
        staged, self._staged = self._staged, []
        for stage, _ in staged:
            self._retry.call(stage.drop)

    def chunks(self) -> Iterator[Writes]:
        """Read the rows that Spark has folded."""
        self.counts |= dict.fromkeys(self._folded, 0)
        for name, folded in self._folded.items():
            if name not in self._together:
                for rows in _chunks(folded.trays()):
                    yield from self._taken({name: rows})
        given = {
            name: _chunks(folded.trays()) for name, folded in self._folded.items() if name in self._together
        }
        for window in windows(given):
            yield from self._in_order(self._taken(window), self._ranks_of)

    def _taken(self, rows: Mapping[str, Tray]) -> list[Writes]:
        """Return the writes of rows of some tables."""
        found = []
        for name, tray in rows.items():
            output = TableOutput(self._tables[name])
            # One for all attempts: the commit notes there what the database refuses.
            output.account = self._written.setdefault(name, Account())
            output.add([tray])
            writes = output.take()
            if writes is not None:
                self.counts[name] += len(tray)
                found.append(writes)
        return found

    def _put_aside(self, table: ForeignTable, stage: StagingTable, name: str) -> bool:
        """Let Spark fill a staging table; False if the database refuses a row of it."""
        servers = {server.name: server for server in self._context.plan.servers}
        fold = StagedFold(table, servers[table.server], name)

        def fill() -> list[StagedPart]:
            stage.create()
            # A stage has no order. Other rows are written in theirs: a constraint may refuse one of them.
            folded = self._run.fold(table.name, table.row_type, fold, in_any_order=not table.key)
            parts = [note for note in folded.notes if isinstance(note, StagedPart)]
            if troubles := [part.trouble for part in parts if part.trouble is not None]:
                raise UnavailableError(troubles[0])
            return parts

        parts = self._retry.call(fill)
        if any(part.refused is not None for part in parts):
            self._retry.call(stage.drop)
            return False
        self.counts[table.name] = sum(part.rows for part in parts)
        self._staged.append((stage, [part.part for part in parts]))
        return True

    def _fold(self, table: ForeignTable) -> None:
        fold = TableFold(table, keeps_all=table.name in self._together)
        self._folded[table.name] = self._run.fold(table.name, table.row_type, fold)


@dataclass(frozen=True, slots=True)
class _FoldedWrites:
    tables: TablesOutput

    def __iter__(self) -> Iterator[Writes]:
        return self.tables.chunks()


@dataclass(frozen=True, slots=True)
class ErrorRowMaker:
    """Makes error rows of faults and their messages, inside a task; see ``faults.FaultRows``."""

    places: Mapping[int, PartitionId]
    topics: Mapping[str, str]

    def __call__(self, faults: Sequence[Fault], messages: pa.RecordBatch) -> bytes:
        """Return the error rows, pickled."""
        rows = error_rows(
            faults,
            source_of=self.places.get,
            topics=self.topics,
            recent=self._recent(messages),
            fetch=lambda _place, _offsets: {},
        )
        return pickle.dumps(rows)

    def _recent(self, batch: pa.RecordBatch) -> RecentMessages:
        recent = RecentMessages()
        held: dict[PartitionId, dict[int, tuple[int, bytes | None]]] = {}
        for row in batch.to_pylist():
            if row["timestamp"] is not None:
                place = (row["source"], row["partition"])
                held.setdefault(place, {})[row["offset"]] = (row["timestamp"], row["value"])
        for (relation, partition), found in held.items():
            offsets = sorted(found)
            recent.add(
                relation,
                Messages(
                    topic=self.topics[relation],
                    partition=partition,
                    offsets=np.array(offsets, dtype=np.int64),
                    timestamps=np.array([found[each][0] for each in offsets], dtype=np.int64),
                    keys=[None] * len(offsets),
                    values=[found[each][1] for each in offsets],
                    next_offset=offsets[-1] + 1,
                ),
            )
        return recent


@dataclass(frozen=True, slots=True)
class ErrorsOutput:
    """The error rows of a backfill: ``faults`` if they are few, else ``rows``, in chunks.

    ``count`` is how many there are.
    """

    count: int
    faults: Sequence[Fault] = ()
    rows: Iterable[Sequence[ErrorRow]] = ()


@dataclass(frozen=True, slots=True)
class _Pieces:
    cells: Iterable[bytes]

    def __iter__(self) -> Iterator[Sequence[ErrorRow]]:
        for content in self.cells:
            rows: list[ErrorRow] = pickle.loads(content)
            yield rows


def errors_output(
    run: SparkRun,
    messages: Callable[[], Mapping[str, DataFrame]],
    places: Mapping[int, PartitionId],
    topics: Mapping[str, str],
) -> ErrorsOutput:
    """Prepare the error rows of a run. ``places`` maps origins to partitions.

    ``messages`` returns those of the faults, which Spark reads again if they are many.
    """
    if run.faults.count() <= FETCHED_FAULTS:
        faults = run.faults.read()
        return ErrorsOutput(len(faults), faults=faults)
    pieces = _Pieces(run.faults.rows(messages(), places, ErrorRowMaker(places, topics)))
    return ErrorsOutput(sum(map(len, pieces)), rows=pieces)


def _chunks(trays: Iterable[Tray]) -> Iterator[Tray]:
    for tray in trays:
        for start in range(0, len(tray), OUTPUT_ROWS):
            yield tray.slice(start, min(start + OUTPUT_ROWS, len(tray)))


def windows(given: Mapping[str, Iterator[Tray]]) -> Iterator[Mapping[str, Tray]]:
    """Cut the rows of several tables, each in order of time, so that all rows of a rowtime come in one window."""
    held: dict[str, Tray] = {}
    ended: set[str] = set()
    while True:
        for name, trays in given.items():
            while name not in ended and (name not in held or held[name].rowtime[0] == held[name].rowtime[-1]):
                following = next(trays, None)
                if following is None:
                    ended.add(name)
                else:
                    held[name] = Tray.concat([held[name], following]) if name in held else following
        if not held:
            return
        # A table that has not ended may have more rows of its last rowtime.
        limit = min(
            (int(tray.rowtime[-1]) for name, tray in held.items() if name not in ended), default=LATEST
        )
        counts = {name: int(np.searchsorted(tray.rowtime, limit)) for name, tray in held.items()}
        yield {name: held[name].slice(0, count) for name, count in counts.items() if count}
        held = {
            name: tray.slice(counts[name], len(tray))
            for name, tray in held.items()
            if counts[name] < len(tray)
        }


def _stage_of(database: object, table: ForeignTable, name: str) -> StagingTable | None:
    return database.stage(target_table(table), name) if isinstance(database, StagingDatabase) else None


def _move(stage: StagingTable, parts: Sequence[str], transaction: Transaction) -> None:
    stage.move(transaction, parts)
