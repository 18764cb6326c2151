"""A database in memory with failures on request: without them it loses nothing and repeats nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rowtide.checkpoint.ledger import (
    Decision,
    ErrorRow,
    KeptAccount,
    Record,
    SnapshotEntry,
    StoredError,
    Writer,
)
from rowtide.checkpoint.outbox import OutboxState
from rowtide.checkpoint.snapshot_part import Chunk
from rowtide.checkpoint.statement_log import SentText, StatementChange
from rowtide.errors import FaultError
from rowtide_connectors.api import OutgoingMessage, TargetTable
from rowtide_connectors.errors import RefusedRowsError, UnavailableError


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A snapshot as any database stores it."""

    entry: SnapshotEntry
    manifest: str
    chunks: tuple[Chunk, ...]
    checksum: str


@dataclass
class Checkpoint:
    """The stored state of one pipeline."""

    record: Record | None = None
    text: str | None = None
    claimed_at_ms: int = 0
    stored_errors: list[StoredError] = field(default_factory=list)
    snapshots: list[EncodedSnapshot] = field(default_factory=list)
    incomplete: tuple[tuple[int, int], tuple[Chunk, ...]] | None = None
    """A snapshot of which not all parts are there: its epoch and commit, and its chunks."""
    decisions: list[Decision] = field(default_factory=list)
    accounts: dict[tuple[str, str], KeptAccount] = field(default_factory=dict)
    last_snapshot: int = 0
    last_error: int = 0
    last_decision: int = 0
    decision_numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    beats: int = 0
    parts_folder: str | None = None

    @property
    def errors(self) -> list[ErrorRow]:
        """The rows of the error stream, the oldest first."""
        return [each.row for each in self.stored_errors]

    def copied(self) -> Checkpoint:
        """Return an independent copy; the items of its lists are immutable."""
        return replace(
            self,
            stored_errors=list(self.stored_errors),
            snapshots=list(self.snapshots),
            decisions=list(self.decisions),
            accounts=dict(self.accounts),
            decision_numbers=dict(self.decision_numbers),
        )


@dataclass(frozen=True, slots=True)
class OutboxContents:
    """One outbox."""

    state: OutboxState
    messages: tuple[OutgoingMessage, ...]


@dataclass
class DatabaseContents:
    """The contents of a database: committed, or as a transaction sees them. ``checkpoints`` are by pipeline."""

    tables: dict[str, dict[object, tuple[object, ...]]] = field(default_factory=dict)
    appended: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    outboxes: dict[tuple[str, str], OutboxContents] = field(default_factory=dict)
    """By pipeline and relation."""
    statements: dict[int, tuple[str, SentText, tuple[int, StatementChange] | None]] = field(
        default_factory=dict
    )
    """By id: the pipeline, the text, and if it was applied, the commit and the changes."""

    def copied(self) -> DatabaseContents:
        """Return an independent copy."""
        return DatabaseContents(
            {name: dict(rows) for name, rows in self.tables.items()},
            {name: list(rows) for name, rows in self.appended.items()},
            {name: checkpoint.copied() for name, checkpoint in self.checkpoints.items()},
            dict(self.outboxes),
            dict(self.statements),
        )


class InMemoryTransaction:
    """The operations of a ``Transaction``, on a copy of the contents."""

    def __init__(
        self,
        contents: DatabaseContents,
        refuses: Callable[[str, tuple[object, ...]], bool] = lambda *_: False,
        *,
        sifts: bool = False,
    ) -> None:
        self.contents = contents
        self._sifts = sifts
        self._refuses = refuses

    def _rows(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> list[tuple[object, ...]]:
        rows = list(zip(*columns.values(), strict=True))
        refused = {index: "it is refused" for index, row in enumerate(rows) if self._refuses(table.name, row)}
        if refused:
            # Rows are independent of one another here, so accepted rows need not be written for the check.
            raise RefusedRowsError("it is refused", table=table.name, rows=refused if self._sifts else None)
        return rows

    def upsert(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Insert or replace rows by key."""
        rows = self.contents.tables.setdefault(table.name, {})
        keys = list(zip(*(columns[name] for name in table.key), strict=True))
        if len(set(keys)) != len(keys):
            raise FaultError(f"keys of {table.name} are there twice in one call")
        rows.update(zip(keys, self._rows(table, columns), strict=True))

    def delete(self, table: TargetTable, keys: Mapping[str, Sequence[object]]) -> None:
        """Delete the rows of these keys."""
        rows = self.contents.tables.setdefault(table.name, {})
        for key in zip(*(keys[name] for name in table.key), strict=True):
            rows.pop(key, None)

    def judges_rows(self, table: TargetTable) -> bool:
        """Return whether a row can be refused for more than its values: False, ``refuses`` sees only values."""
        return False

    def reasons_of_table(self, table: TargetTable) -> frozenset[str]:
        """Return none: ``refuses`` decides about each row by its values."""
        return frozenset()

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Raise if a row would be refused."""
        self._rows(table, columns)

    def append(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Append rows."""
        self.contents.appended.setdefault(table.name, []).extend(self._rows(table, columns))

    def compared(
        self, table: TargetTable, keys: Mapping[str, Sequence[object]]
    ) -> Sequence[Sequence[object]]:
        """Return keys as they are."""
        return list(keys.values())

    def form_of(self, table: TargetTable) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
        """Return rows as they are."""
        return lambda row: row

    def rows(self, table: TargetTable) -> Iterator[tuple[object, ...]]:
        """Yield all rows of a table."""
        yield from self.contents.tables.get(table.name, {}).values()
        yield from self.contents.appended.get(table.name, ())


class InMemoryDatabase:
    """A ``Database``: a transaction works on a copy, which replaces the contents at the commit.

    ``before`` is called before the steps begin, commit and committed; a test can make it raise.
    ``refuses`` returns whether a row of a table violates a constraint. ``writer`` returns the session that holds the
    record of a pipeline: while there is one, transactions of others fail as after the time-out of a lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.contents = DatabaseContents()
        self.prepared: list[str] = []
        self.refuses: Callable[[str, tuple[object, ...]], bool] = lambda _table, _row: False
        self.before: Callable[[str], None] = lambda _step: None
        self.writer: Callable[[], Writer | None] = lambda: None

    @contextmanager
    def begin(self, *, apart: bool = False) -> Iterator[InMemoryTransaction]:
        """Open a transaction; transactions of other threads wait. Rows are always taken or refused alone."""
        self.before("begin")
        if self.writer() is not None:
            raise UnavailableError("another transaction holds the record")
        with self._lock:
            staged = self.contents.copied()
            yield InMemoryTransaction(staged, self.refuses)
            self.before("commit")
            self.contents = staged
        self.before("committed")

    @contextmanager
    def sift(self, *, at_once: bool = False) -> Iterator[InMemoryTransaction]:
        """Open a transaction on a copy that is dropped: it only finds refused rows. None are deferred."""
        self.before("sift")
        with self._lock:
            yield InMemoryTransaction(self.contents.copied(), self.refuses, sifts=True)

    @contextmanager
    def begin_read_only(self) -> Iterator[InMemoryTransaction]:
        """Open a transaction on a copy that is dropped."""
        with self._lock:
            staged = self.contents.copied()
        yield InMemoryTransaction(staged, self.refuses)

    def missing(self, tables: Sequence[TargetTable]) -> Sequence[str]:
        """Return the tables that are not prepared."""
        return [table.name for table in tables if table.name not in self.prepared]

    def prepare(self, tables: Sequence[TargetTable]) -> None:
        """Record that the tables exist."""
        self.before("prepare")
        self.prepared = [table.name for table in tables]

    def limit_idle(self, seconds: int) -> None:
        """Do nothing: there are no sessions."""

    def close(self) -> None:
        """Do nothing: no resource is open."""
