"""The log of a table of a database that is polled: its changes, in the checkpoint's database.

A database has no positions to read again from. So each change that a poll finds is appended here before
it is processed, under the epoch of the process, and every reader obeys the log. Three tables:

* ``polled_changes``: the log. A record is a row of a key, a DELETE of a key (no content), or a bound.
* ``polled_rows``: a digest of the last logged row of each key. It always agrees with the log, since each
  transaction writes both. A poll logs what differs from it.
* ``polls``: the next offset, the last bound, and the rowtime of a poll that has begun to log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.statements import check_epoch, insert_of, own_target, replacing
from rowtide.checkpoint.tables import SINCE_POLLS, Tables, tables_of
from rowtide_connectors.api import Database, OffsetRange, TableColumn, Transaction
from rowtide_connectors.rdbms.transaction import sql_connection

DIGEST_BYTES = 16
LOOK_UP_ROWS = 2_000
"""Rows of one look-up and of one transaction: within every database's limit of parameters."""


@dataclass(frozen=True, slots=True)
class PollState:
    """How far the polls of a table got.

    ``read_from`` is the table and its options: another one is compared as a whole. ``bound`` is the
    promise of the last complete poll. ``pending`` is the rowtime of a poll that has logged changes and is
    not complete. ``reached`` is the greatest value of the column that orders changes, and ``compared_ms``
    the wall time of the last comparison of all rows.
    """

    read_from: str
    next_offset: int = 0
    bound: int | None = None
    pending: int | None = None
    reached: str | None = None
    compared_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PolledRow:
    """A row as a poll reads it: key and content as messages have them."""

    key: bytes
    content: bytes

    @property
    def key_digest(self) -> str:
        """A digest of the key, which stands for it."""
        return digest_of(self.key)


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A record of the log. Without ``bound`` it is a row, or without ``content`` a DELETE."""

    offset: int
    rowtime: int
    key: bytes | None
    content: bytes | None
    bound: int | None


def digest_of(content: bytes) -> str:
    """Return the digest of a key or a row, in hexadecimal digits."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


class PolledLog:
    """The log of ``relation`` of ``pipeline`` in ``database``. Safe for several threads; one writes."""

    def __init__(self, database: Database, pipeline: str, relation: str) -> None:
        self._database = database
        self._pipeline = pipeline
        self._relation = relation

    # ------------------------------------------------------------------ reading

    def range(self) -> OffsetRange:
        """Return the range of the log.

        Raises:
          UnavailableError.
        """
        with self._database.begin() as transaction:
            tables = self._tables(transaction)
            if tables is None:
                return OffsetRange(0, 0)
            connection = sql_connection(transaction)
            changes = tables.polled_changes
            first = connection.execute(
                sa.select(sa.func.min(changes.c.message_offset)).where(*self._own(changes))
            ).scalar_one_or_none()
            end = connection.execute(
                sa.select(tables.polls.c.next_offset).where(*self._own(tables.polls))
            ).scalar_one_or_none()
            return OffsetRange((end or 0) if first is None else first, end or 0)

    def state(self, read_from: str) -> PollState:
        """Return how far the polls of ``read_from`` got.

        Raises:
          UnavailableError.
        """
        with self._database.begin() as transaction:
            tables = self._tables(transaction)
            return PollState(read_from) if tables is None else self._state(transaction, tables, read_from)

    def read(self, begin: int, limit: int) -> Sequence[LoggedChange]:
        """Return at most ``limit`` records from offset ``begin`` on.

        Raises:
          UnavailableError.
        """
        with self._database.begin() as transaction:
            tables = self._tables(transaction)
            if tables is None:
                return ()
            changes = tables.polled_changes
            rows = sql_connection(transaction).execute(
                _records(changes)
                .where(*self._own(changes), changes.c.message_offset >= begin)
                .order_by(changes.c.message_offset)
                .limit(limit)
            )
            return [LoggedChange(*row) for row in rows]

    def fetch(self, offsets: Sequence[int]) -> Sequence[LoggedChange]:
        """Return the records at these offsets; one that was collected is left out.

        Raises:
          UnavailableError.
        """
        found: list[LoggedChange] = []
        with self._database.begin() as transaction:
            tables = self._tables(transaction)
            if tables is None:
                return found
            changes = tables.polled_changes
            for start in range(0, len(offsets), LOOK_UP_ROWS):
                some = offsets[start : start + LOOK_UP_ROWS]
                rows = sql_connection(transaction).execute(
                    _records(changes).where(*self._own(changes), changes.c.message_offset.in_(some))
                )
                found += [LoggedChange(*row) for row in rows]
        return found

    # ------------------------------------------------------------------ writing

    def append(self, epoch: int, state: PollState, rowtime: int, rows: Sequence[PolledRow]) -> PollState:
        """Log those of at most ``LOOK_UP_ROWS`` rows that differ from the last logged row of their key.

        The keys are distinct. Returns the state after it.

        Raises:
          SupersededError: another process took the pipeline; nothing was logged.
          UnavailableError: it may have been logged or not: read the state again.
        """
        with self._database.begin() as transaction:
            tables = self._fenced(transaction, epoch)
            digests = [(row.key_digest, digest_of(row.content)) for row in rows]
            known = self._known(transaction, tables, [key for key, _ in digests])
            changed = [
                (row, key, content)
                for row, (key, content) in zip(rows, digests, strict=True)
                if known.get(key) != content
            ]
            if not changed:
                return state
            after = self._log(
                transaction, tables, state, rowtime, [(row.key, row.content) for row, _, _ in changed]
            )
            count = len(changed)
            transaction.upsert(
                own_target(
                    sql_connection(transaction), "polled_rows", _ROWS, ("pipeline", "relation", "key_digest")
                ),
                {
                    "pipeline": [self._pipeline] * count,
                    "relation": [self._relation] * count,
                    "key_digest": [key for _, key, _ in changed],
                    "row_digest": [content for _, _, content in changed],
                    "message_key": [row.key for row, _, _ in changed],
                },
            )
        return after

    def key_digests(self) -> Iterator[Sequence[str]]:
        """Yield the digests of all logged keys, in groups of at most ``LOOK_UP_ROWS``.

        Raises:
          UnavailableError.
        """
        last = ""
        while True:
            with self._database.begin() as transaction:
                tables = self._tables(transaction)
                if tables is None:
                    return
                rows = tables.polled_rows
                found = (
                    sql_connection(transaction)
                    .execute(
                        sa.select(rows.c.key_digest)
                        .where(*self._own(rows), rows.c.key_digest > last)
                        .order_by(rows.c.key_digest)
                        .limit(LOOK_UP_ROWS)
                    )
                    .scalars()
                    .all()
                )
            if not found:
                return
            yield found
            last = found[-1]

    def delete(self, epoch: int, state: PollState, rowtime: int, digests: Sequence[str]) -> PollState:
        """Log DELETEs of at most ``LOOK_UP_ROWS`` keys, by their digests; return the state after it.

        Raises:
          As ``append``.
        """
        with self._database.begin() as transaction:
            tables = self._fenced(transaction, epoch)
            rows = tables.polled_rows
            connection = sql_connection(transaction)
            gone = [*self._own(rows), rows.c.key_digest.in_(digests)]
            keys = (
                connection.execute(sa.select(rows.c.message_key).where(*gone).order_by(rows.c.key_digest))
                .scalars()
                .all()
            )
            if not keys:
                return state
            after = self._log(transaction, tables, state, rowtime, [(bytes(key), None) for key in keys])
            connection.execute(sa.delete(rows).where(*gone))
        return after

    def complete(self, epoch: int, state: PollState) -> PollState:
        """Log the bound of ``state``, which ends a poll; return the state after it.

        Raises:
          As ``append``.
        """
        with self._database.begin() as transaction:
            tables = self._fenced(transaction, epoch)
            assert state.bound is not None
            transaction.append(
                own_target(sql_connection(transaction), "polled_changes", _CHANGES),
                {
                    "pipeline": [self._pipeline],
                    "relation": [self._relation],
                    "message_offset": [state.next_offset],
                    "rowtime": [state.bound],
                    "message_key": [None],
                    "content": [None],
                    "bound": [state.bound],
                },
            )
            after = replace(state, next_offset=state.next_offset + 1, pending=None)
            self._keep(transaction, tables, after)
        return after

    def _log(
        self,
        transaction: Transaction,
        tables: Tables,
        state: PollState,
        rowtime: int,
        records: Sequence[tuple[bytes, bytes | None]],
    ) -> PollState:
        count, begin = len(records), state.next_offset
        transaction.append(
            own_target(sql_connection(transaction), "polled_changes", _CHANGES),
            {
                "pipeline": [self._pipeline] * count,
                "relation": [self._relation] * count,
                "message_offset": list(range(begin, begin + count)),
                "rowtime": [rowtime] * count,
                "message_key": [key for key, _ in records],
                "content": [content for _, content in records],
                "bound": [None] * count,
            },
        )
        after = replace(state, next_offset=begin + count, pending=rowtime)
        self._keep(transaction, tables, after)
        return after

    def _keep(self, transaction: Transaction, tables: Tables, state: PollState) -> None:
        connection = sql_connection(transaction)
        polls = tables.polls
        values = {name: getattr(state, name) for name in _STATE}
        statement = insert_of(connection)(polls).values(
            pipeline=self._pipeline, relation=self._relation, **values
        )
        connection.execute(replacing(statement, values))

    def _fenced(self, transaction: Transaction, epoch: int) -> Tables:
        """Return the tables, after a check that the epoch is still the newest; it stays so to the end."""
        connection = sql_connection(transaction)
        tables = tables_of(connection.dialect.name)
        check_epoch(connection, tables, self._pipeline, epoch)
        return tables

    def _known(self, transaction: Transaction, tables: Tables, keys: Sequence[str]) -> dict[str, str]:
        """Return the digests of the last logged rows of keys."""
        rows = tables.polled_rows
        found = sql_connection(transaction).execute(
            sa.select(rows.c.key_digest, rows.c.row_digest).where(
                *self._own(rows), rows.c.key_digest.in_(keys)
            )
        )
        return {key: content for key, content in found}

    def _state(self, transaction: Transaction, tables: Tables, read_from: str) -> PollState:
        polls = tables.polls
        row = (
            sql_connection(transaction)
            .execute(sa.select(*(polls.c[name] for name in _STATE)).where(*self._own(polls)))
            .one_or_none()
        )
        if row is None:
            return PollState(read_from)
        state = PollState(**row._asdict())
        if state.read_from == read_from:
            return state
        return replace(state, read_from=read_from, reached=None, compared_ms=None)

    def _own(self, table: sa.Table) -> list[sa.ColumnElement[bool]]:
        return [table.c.pipeline == self._pipeline, table.c.relation == self._relation]

    def _tables(self, transaction: Transaction) -> Tables | None:
        """Return the tables, or None if the checkpoint does not have them yet."""
        connection = sql_connection(transaction)
        version = check_version(connection)
        if version is None or version < SINCE_POLLS:
            return None
        return tables_of(connection.dialect.name)


def drop_logs(
    connection: sa.Connection, tables: Tables, pipeline: str, relations: Sequence[str] | None = None
) -> None:
    """Drop the logs of a pipeline; with ``relations`` only those of these."""
    for table in (tables.polled_changes, tables.polled_rows, tables.polls):
        own = [table.c.pipeline == pipeline]
        if relations is not None:
            own.append(table.c.relation.in_(relations))
        connection.execute(sa.delete(table).where(*own))


def collect_logs(
    connection: sa.Connection, tables: Tables, pipeline: str, kept: Sequence[dict[str, int]]
) -> None:
    """Delete the records before the least position of the ``kept`` snapshots, which no recovery reads.

    Each of them has the position of each relation. A relation that one of them does not know is left.
    """
    for relation in set.intersection(*map(set, kept)) if kept else ():
        changes = tables.polled_changes
        connection.execute(
            sa.delete(changes).where(
                changes.c.pipeline == pipeline,
                changes.c.relation == relation,
                changes.c.message_offset < min(each[relation] for each in kept),
            )
        )


def _records(changes: sa.Table) -> sa.Select[Any]:
    return sa.select(*(changes.c[name] for name in ("message_offset", "rowtime", *_MESSAGE)))


_STATE = ("read_from", "next_offset", "bound", "pending", "reached", "compared_ms")
_MESSAGE = ("message_key", "content", "bound")
_CHANGES = (
    TableColumn("pipeline", "VARCHAR", False),
    TableColumn("relation", "VARCHAR", False),
    TableColumn("message_offset", "BIGINT", False),
    TableColumn("rowtime", "BIGINT", False),
    TableColumn("message_key", "VARBINARY", True),
    TableColumn("content", "VARBINARY", True),
    TableColumn("bound", "BIGINT", True),
)
_ROWS = (
    TableColumn("pipeline", "VARCHAR", False),
    TableColumn("relation", "VARCHAR", False),
    TableColumn("key_digest", "VARCHAR", False),
    TableColumn("row_digest", "VARCHAR", False),
    TableColumn("message_key", "VARBINARY", False),
)
