"""Reads the error stream's table, and marks rows of it as resubmitted.

A row is resubmitted at most once, by marking it, in one transaction with the
other rows of the resubmission. The service finds the marks, and reads the rows
like a partition of a topic (``runtime.live.resubmission``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from rowtide.checkpoint.ledger import ErrorRow, PendingErrors, Resubmission, StoredError
from rowtide.checkpoint.tables import Tables, now, to_ms
from rowtide.errors import OvertakenError, StatementError

MAX_RESUBMISSIONS = 1_000
"""Limit for one pipeline. Each remains a partition of its stream forever, because a replay must find it."""
RESUBMITTED_ROWS = 10_000
"""Maximum rows of one resubmission. They enter the flow at once."""
RESUBMITTED_BYTES = 64 * 1024 * 1024
"""Maximum bytes of one resubmission (``ErrorRow.size``), unless it has one row."""


@dataclass(frozen=True, slots=True)
class ErrorFilter:
    """A selection of error rows. None or empty fields do not restrict it.

    ``reason`` is the first word of REASON; ``pending``: only rows that were not resubmitted.
    """

    numbers: tuple[int, ...] = ()
    kind: str | None = None
    relation: str | None = None
    reason: str | None = None
    pending: bool = False
    after: int = 0


ALL_ERRORS = ErrorFilter()


def select_errors(tables: Tables, pipeline: str, wanted: ErrorFilter) -> sa.Select[Any]:
    """Return the query for error rows, the oldest first."""
    table = tables.errors
    query = sa.select(table).where(table.c.pipeline == pipeline, table.c.error_id > wanted.after)
    if wanted.numbers:
        query = query.where(table.c.error_id.in_(wanted.numbers))
    if wanted.kind is not None:
        query = query.where(table.c.kind == wanted.kind)
    if wanted.relation is not None:
        query = query.where(table.c.relation == wanted.relation)
    if wanted.reason is not None:
        word = wanted.reason
        query = query.where(sa.or_(table.c.reason == word, table.c.reason.startswith(f"{word}:")))
    if wanted.pending:
        query = query.where(table.c.resubmitted.is_(None))
    return query.order_by(table.c.error_id)


def count_pending(connection: sa.Connection, tables: Tables, pipeline: str) -> PendingErrors:
    """Count the error rows that are not resubmitted."""
    table = tables.errors
    ours = sa.select(table.c.relation, sa.func.count()).where(table.c.pipeline == pipeline)
    pending = ours.where(table.c.resubmitted.is_(None)).group_by(table.c.relation).order_by(table.c.relation)
    newest = sa.select(sa.func.max(table.c.error_id)).where(table.c.pipeline == pipeline)
    return PendingErrors(
        {relation: rows for relation, rows in connection.execute(pending)},
        connection.execute(newest).scalar_one(),
    )


def select_resubmitted(tables: Tables, pipeline: str, number: int) -> sa.Select[Any]:
    """Return the query for the rows of one resubmission, in the order of their rowtimes."""
    table = tables.errors
    return (
        sa.select(table)
        .where(table.c.pipeline == pipeline, table.c.resubmitted == number)
        .order_by(sa.func.coalesce(table.c.rowtime, 0), table.c.error_id)
    )


def read_resubmissions(connection: sa.Connection, tables: Tables, pipeline: str) -> list[Resubmission]:
    """Return the resubmissions, in order."""
    table = tables.errors
    entered = table.c.row_json.is_not(None).label("entered")
    rows = connection.execute(
        sa.select(table.c.resubmitted, table.c.stream, table.c.relation, entered)
        .where(table.c.pipeline == pipeline, table.c.resubmitted.is_not(None))
        .distinct()
        .order_by(table.c.resubmitted)
    )
    return [
        Resubmission(row.resubmitted, row.stream, row.relation, entered=bool(row.entered)) for row in rows
    ]


def mark_resubmitted(
    connection: sa.Connection,
    tables: Tables,
    pipeline: str,
    rows: Iterable[StoredError],
    refuse: Callable[[str], None],
) -> int:
    """Mark error rows as resubmitted; return the number of resubmissions.

    ``refuse`` is called with the holder of the epoch, which stays the holder until the marks are committed.

    Raises:
      OvertakenError: one of them was resubmitted meanwhile; nothing has changed.
      StatementError: the pipeline has too many resubmissions; nothing has changed.
      What ``refuse`` raises; nothing has changed.
    """
    table, pipelines = tables.errors, tables.pipelines
    # Locks the record: if two commands resubmit at once, the second sees the marks of the first.
    connection.execute(
        sa.update(pipelines).where(pipelines.c.pipeline == pipeline).values(holder=pipelines.c.holder)
    )
    held = sa.select(pipelines.c.holder).where(pipelines.c.pipeline == pipeline).with_for_update()
    if (holder := connection.execute(held).scalar_one_or_none()) is not None:
        refuse(holder)
    last = connection.execute(
        sa.select(sa.func.coalesce(sa.func.max(table.c.resubmitted), 0)).where(table.c.pipeline == pipeline)
    ).scalar_one()
    groups = list(together(rows))
    left_after(last, len(groups))
    for number, group in enumerate(groups, last + 1):
        marked = connection.execute(
            sa.update(table)
            .where(table.c.error_id.in_([row.error_id for row in group]), table.c.resubmitted.is_(None))
            .values(resubmitted=number, resubmitted_at=now(connection.dialect.name))
        )
        if marked.rowcount != len(group):
            raise OvertakenError(
                "some of the error rows were resubmitted by another command; nothing has changed"
            )
    return len(groups)


def left_after(last: int, more: int) -> int:
    """Return how many resubmissions a pipeline may have after ``more`` than those up to the number ``last``.

    Raises:
      StatementError: it may not have so many.
    """
    left = MAX_RESUBMISSIONS - last - more
    if more and left < 0:
        raise StatementError(
            f"the pipeline has {last} resubmissions, and {MAX_RESUBMISSIONS} is the limit",
            hint=f"Resubmit many rows at once: one resubmission takes {RESUBMITTED_ROWS} rows of a relation.",
        )
    return left


def stored_error(row: Any) -> StoredError:
    """Return a row of the table as a value."""
    error = ErrorRow(
        row.kind,
        row.relation,
        row.reason,
        row.topic,
        row.partition,
        row.message_offset,
        row.rowtime,
        row.bound,
        row.raw,
        row.row_json,
        row.stream,
        row.message_time,
        row.message_key,
        row.message_headers,
    )
    at = None if row.resubmitted_at is None else to_ms(row.resubmitted_at)
    return StoredError(row.error_id, error, row.epoch, to_ms(row.committed_at), row.resubmitted, at)


def together(rows: Iterable[StoredError]) -> Iterator[Sequence[StoredError]]:
    """Group rows into resubmissions: by stream, relation, and whether they had been rows."""
    groups: dict[tuple[str | None, str, bool], list[StoredError]] = {}
    for stored in rows:
        row = stored.row
        groups.setdefault((row.stream, row.relation, row.row is not None), []).append(stored)
    for group in groups.values():
        for part, _ in parts_of(group, RESUBMITTED_ROWS):
            yield part


def parts_of(rows: Iterable[StoredError], most: int) -> Iterator[tuple[list[StoredError], bool]]:
    """Yield rows in parts of at most ``most`` rows and RESUBMITTED_BYTES, each with whether others follow it.

    A larger row is a part of its own. A part is there as soon as the row after it is read.
    """
    part: list[StoredError] = []
    size = 0
    for stored in rows:
        if part and (len(part) == most or size + stored.row.size > RESUBMITTED_BYTES):
            yield part, True
            part, size = [], 0
        part.append(stored)
        size += stored.row.size
    if part:
        yield part, False
