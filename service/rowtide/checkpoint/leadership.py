"""Signs of life of the process that holds a pipeline's epoch, for the replicas that follow it.

They are in the row of the pipeline, under the condition on the epoch that fences commits: a process that was
superseded notices it at its next heartbeat, too. They decide nothing: the fence alone does (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from rowtide.checkpoint.ledger import Decision, Pulse, Writer, why_not_ours
from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.sessions import end_writer, writer_of, written_by
from rowtide.checkpoint.tables import SINCE_BEATS, beats_of, tables_of
from rowtide.errors import FaultError, RowtideError
from rowtide_connectors.api import Database
from rowtide_connectors.rdbms.transaction import sql_connection

DECISION_FIELDS = ("kind", "relation", "partition", "next_offset", "bound", "reader")


class DatabaseLeadership:
    """The signs of life of ``pipeline`` in ``database``; see ``ledger.Leadership``."""

    def __init__(self, database: Database, pipeline: str) -> None:
        self._database = database
        self._pipeline = pipeline

    def pulse(self) -> Pulse | None:
        """Return the last sign of life; see ``ledger.Leadership``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            if version is None:
                return None
            table = beats_of(connection.dialect.name)
            # A leader of an earlier version has no heartbeats, only commits.
            beats = table.c.beats if version >= SINCE_BEATS else sa.null().label("beats")
            row = connection.execute(
                sa.select(table.c.epoch, table.c.commits, beats).where(table.c.pipeline == self._pipeline)
            ).one_or_none()
            return None if row is None else Pulse(row.epoch, row.commits, row.beats or 0)

    def beat(self, epoch: int, beats: int) -> None:
        """Record a sign of life; see ``ledger.Leadership``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            table = beats_of(connection.dialect.name)
            written = connection.execute(
                sa.update(table)
                .where(table.c.pipeline == self._pipeline, table.c.epoch == epoch)
                .values(beats=beats, **written_by(connection))
            )
            # MySQL does not count a row that does not change.
            if written.rowcount != 1 and (error := fenced(connection, self._pipeline, epoch)):
                raise error

    def decisions_after(self, number: int) -> Sequence[tuple[int, Decision]]:
        """Return the decisions after that one, with their numbers; see ``ledger.Leadership``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            return read_decisions(connection, self._pipeline, number)

    def writer(self) -> Writer | None:
        """Return the session whose open transaction has written the record; see ``ledger.Leadership``."""
        return writer_of(self._database, self._pipeline)

    def end_writer(self, writer: Writer) -> None:
        """End a session that is silent in this transaction; see ``ledger.Leadership``."""
        end_writer(self._database, self._pipeline, writer)


def read_decisions(connection: sa.Connection, pipeline: str, after: int) -> list[tuple[int, Decision]]:
    """Return the decisions whose numbers are above ``after``, in the order in which they were committed."""
    table = tables_of(connection.dialect.name).decisions
    rows = connection.execute(
        sa.select(table.c.decision_id, *(table.c[name] for name in DECISION_FIELDS))
        .where(table.c.pipeline == pipeline, table.c.decision_id > after)
        .order_by(table.c.decision_id)
    )
    return [(number, Decision(*fields)) for number, *fields in rows]


def fenced(
    connection: sa.Connection, pipeline: str, epoch: int, commits: int | None = None
) -> RowtideError | None:
    """Return why ``epoch`` must not write to the pipeline; see ``ledger.why_not_ours``. ``commits`` None: any number.

    Raises:
      FaultError: the pipeline is not in the checkpoint.
    """
    pipelines = tables_of(connection.dialect.name).pipelines
    row = connection.execute(sa.select(pipelines).where(pipelines.c.pipeline == pipeline)).one_or_none()
    if row is None:
        raise FaultError(f'pipeline "{pipeline}" no longer exists in the checkpoint')
    return why_not_ours(
        pipeline,
        found=(row.epoch, row.commits),
        ours=(epoch, row.commits if commits is None else commits),
        taken=f"{row.holder} at {row.claimed_at} UTC",
    )
