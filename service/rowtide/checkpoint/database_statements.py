"""Statements that are sent to a running pipeline, in the tables of the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from rowtide.checkpoint.migrate import check_version, migrate
from rowtide.checkpoint.statement_log import SentText, Settled, StatementChange, StatementOutcome
from rowtide.checkpoint.tables import SINCE_STATEMENTS, Tables, now, tables_of, to_ms
from rowtide.checkpoint.texts import codec_of, storable
from rowtide.rowtime.bound import EARLIEST
from rowtide_connectors.api import Database, Transaction
from rowtide_connectors.rdbms.transaction import sql_connection


class DatabaseStatements:
    """The statements of ``pipeline`` in ``database``; see ``statement_log.StatementLog``."""

    def __init__(self, database: Database, pipeline: str) -> None:
        self._database = database
        self._pipeline = pipeline

    def send(self, text: str) -> int:
        """Queue a text; return its id."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            migrate(connection)
            (statement_id,) = connection.execute(
                sa.insert(_tables(connection).statements).values(
                    pipeline=self._pipeline,
                    content=storable(text),
                    outcome=StatementOutcome.QUEUED.value,
                    sent_at=now(connection.dialect.name),
                )
            ).inserted_primary_key or (0,)
            return int(statement_id)

    def find(self, statement_id: int) -> SentText | None:
        """Return a text and its outcome."""
        found = self._select(lambda table: [table.c.statement_id == statement_id])
        return found[0] if found else None

    def newest(self, limit: int) -> Sequence[SentText]:
        """Return the last texts, the oldest of them first."""
        return self._select(lambda _: [], newest=limit)[::-1]

    def queued(self) -> Sequence[SentText]:
        """Return the texts that wait."""
        # The index has the number, which applied texts have: it leaves out all but those that were refused.
        return self._select(
            lambda table: [table.c.number.is_(None), table.c.outcome == StatementOutcome.QUEUED.value]
        )

    def settle(self, transaction: Transaction, commits: int, settled: Sequence[Settled]) -> None:
        """Record outcomes in the transaction of a commit."""
        if not settled:
            return
        connection = sql_connection(transaction)
        tables = _tables(connection)
        for each in settled:
            logged = each.logged
            outcome = StatementOutcome.REFUSED if logged is None else StatementOutcome.APPLIED
            connection.execute(
                sa.update(tables.statements)
                .where(tables.statements.c.statement_id == each.statement_id)
                .values(
                    outcome=outcome.value,
                    settled_at=now(connection.dialect.name),
                    commits=commits,
                    number=None if logged is None else logged.number,
                    rowtime=None if logged is None or logged.rowtime == EARLIEST else logged.rowtime,
                    changed_rows=each.rows,
                    did=each.did,
                    error=None if each.error is None else storable(each.error, codec_of(connection)),
                )
            )
            changes = {} if logged is None else logged.changes
            for relation, change in changes.items():
                connection.execute(
                    sa.insert(tables.statement_changes).values(
                        statement_id=each.statement_id, relation=relation, content=_as_bytes(change)
                    )
                )

    def applied(self, after: int, commits: int) -> Sequence[StatementChange]:
        """Return the logged changes after a number, up to a commit."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not _exist(connection):
                return ()
            tables = _tables(connection)
            sent, changes = tables.statements, tables.statement_changes
            rows = connection.execute(
                sa.select(sent.c.number, sent.c.rowtime, changes.c.relation, changes.c.content)
                .select_from(sent.outerjoin(changes, sent.c.statement_id == changes.c.statement_id))
                .where(sent.c.pipeline == self._pipeline, sent.c.number > after, sent.c.commits <= commits)
                .order_by(sent.c.number, changes.c.relation)
            )
            found: dict[int, StatementChange] = {}
            for number, rowtime, relation, content in rows:
                at = EARLIEST if rowtime is None else rowtime
                before = found.get(number, StatementChange(number, at, {}))
                change = {} if relation is None else {relation: _as_table(content)}
                found[number] = replace(before, changes={**before.changes, **change})
            return list(found.values())

    def _select(self, wanted: Any, newest: int | None = None) -> list[SentText]:
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not _exist(connection):
                return []
            table = _tables(connection).statements
            query = sa.select(table).where(table.c.pipeline == self._pipeline, *wanted(table))
            by = table.c.statement_id
            query = query.order_by(by) if newest is None else query.order_by(by.desc()).limit(newest)
            return [_sent(row) for row in connection.execute(query)]


def drop_statements(connection: sa.Connection, tables: Tables, pipeline: str) -> None:
    """Drop the statements of a pipeline, if the tables have them."""
    if not _exist(connection):
        return
    sent, changes = tables.statements, tables.statement_changes
    own = sa.select(sent.c.statement_id).where(sent.c.pipeline == pipeline)
    connection.execute(sa.delete(changes).where(changes.c.statement_id.in_(own)))
    connection.execute(sa.delete(sent).where(sent.c.pipeline == pipeline))


def _sent(row: Any) -> SentText:
    return SentText(
        row.statement_id,
        row.content,
        StatementOutcome(row.outcome),
        to_ms(row.sent_at),
        None if row.settled_at is None else to_ms(row.settled_at),
        row.rowtime,
        row.changed_rows,
        row.did,
        row.error,
    )


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _as_table(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def _exist(connection: sa.Connection) -> bool:
    version = check_version(connection)
    return version is not None and version >= SINCE_STATEMENTS


def _tables(connection: sa.Connection) -> Tables:
    return tables_of(connection.dialect.name)
