"""A database in memory that fails when told to; nothing in it is lost or done twice unless a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rowtide.checkpoint.ledger import Decision, ErrorRow, KeptAccount, Record, SnapshotEntry, StoredError
from rowtide.checkpoint.snapshot import Chunk
from rowtide.errors import FaultError
from rowtide_connectors.api import TargetTable
from rowtide_connectors.errors import RefusedRowsError


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A snapshot as any database stores it."""

    entry: SnapshotEntry
    manifest: str
    chunks: tuple[Chunk, ...]
    checksum: str


@dataclass
class Checkpoint:
    """What is kept of one pipeline."""

    record: Record | None = None
    claimed_at_ms: int = 0
    stored_errors: list[StoredError] = field(default_factory=list)
    snapshots: list[EncodedSnapshot] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    accounts: dict[tuple[str, str], KeptAccount] = field(default_factory=dict)
    last_snapshot: int = 0
    last_error: int = 0

    @property
    def errors(self) -> list[ErrorRow]:
        """The rows of the error stream, the oldest first."""
        return [each.row for each in self.stored_errors]

    def copied(self) -> Checkpoint:
        """Return a copy that can change by itself; what its lists hold never changes."""
        return replace(
            self,
            stored_errors=list(self.stored_errors),
            snapshots=list(self.snapshots),
            decisions=list(self.decisions),
            accounts=dict(self.accounts),
        )


@dataclass
class DatabaseContents:
    """What a database holds: committed, or as a transaction sees it. ``checkpoints`` are by pipeline."""

    tables: dict[str, dict[object, tuple[object, ...]]] = field(default_factory=dict)
    appended: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)

    def copied(self) -> DatabaseContents:
        """Return a copy that can change by itself."""
        return DatabaseContents(
            {name: dict(rows) for name, rows in self.tables.items()},
            {name: list(rows) for name, rows in self.appended.items()},
            {name: checkpoint.copied() for name, checkpoint in self.checkpoints.items()},
        )


class InMemoryTransaction:
    """What a ``Transaction`` does, on a copy of the contents."""

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
            # Rows do not depend on one another here, so it need not write those that it takes.
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
        """Return whether more than its values decides about a row: ``refuses`` sees them only."""
        return False

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Raise where a row would be refused."""
        self._rows(table, columns)

    def append(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Append rows."""
        self.contents.appended.setdefault(table.name, []).extend(self._rows(table, columns))

    def rows(self, table: TargetTable) -> Iterator[tuple[object, ...]]:
        """Yield all rows of a table."""
        yield from self.contents.tables.get(table.name, {}).values()
        yield from self.contents.appended.get(table.name, ())


class InMemoryDatabase:
    """A ``Database``: a transaction works on a copy, which takes the place of the contents at its commit.

    ``before`` is called before the steps begin, commit and committed; a test makes it raise.
    ``refuses`` says which rows of a table violate a constraint.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.contents = DatabaseContents()
        self.prepared: list[str] = []
        self.refuses: Callable[[str, tuple[object, ...]], bool] = lambda _table, _row: False
        self.before: Callable[[str], None] = lambda _step: None

    @contextmanager
    def begin(self) -> Iterator[InMemoryTransaction]:
        """Open a transaction; transactions of other threads wait."""
        self.before("begin")
        with self._lock:
            staged = self.contents.copied()
            yield InMemoryTransaction(staged, self.refuses)
            self.before("commit")
            self.contents = staged
        self.before("committed")

    @contextmanager
    def sift(self) -> Iterator[InMemoryTransaction]:
        """Open a transaction on a copy, which finds refused rows and is dropped."""
        self.before("sift")
        with self._lock:
            yield InMemoryTransaction(self.contents.copied(), self.refuses, sifts=True)

    @contextmanager
    def begin_read_only(self) -> Iterator[InMemoryTransaction]:
        """Open a transaction on a copy, which is dropped."""
        with self._lock:
            staged = self.contents.copied()
        yield InMemoryTransaction(staged, self.refuses)

    def missing(self, tables: Sequence[TargetTable]) -> Sequence[str]:
        """Return the tables that are not prepared."""
        return [table.name for table in tables if table.name not in self.prepared]

    def prepare(self, tables: Sequence[TargetTable]) -> None:
        """Note that the tables are there."""
        self.before("prepare")
        self.prepared = [table.name for table in tables]

    def close(self) -> None:
        """Nothing is open."""
