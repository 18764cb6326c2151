"""The outbox of a foreign stream in the tables of the checkpoint."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.outbox import NewMessage, OutboxState
from rowtide.checkpoint.statements import own_target
from rowtide.checkpoint.tables import Tables, tables_of
from rowtide.errors import FaultError
from rowtide_connectors.api import Database, OutgoingMessage, TableColumn, Transaction
from rowtide_connectors.rdbms.transaction import sql_connection

OUTBOXES_SINCE = "0009"
"""The version of the checkpoint that made the tables."""
_COLUMNS = (
    TableColumn("pipeline", "VARCHAR", False),
    TableColumn("relation", "VARCHAR", False),
    TableColumn("number", "BIGINT", False),
    TableColumn("message_key", "VARBINARY"),
    TableColumn("message_value", "VARBINARY"),
    TableColumn("message_headers", "VARBINARY"),
    TableColumn("partition", "INTEGER"),
    TableColumn("message_time", "BIGINT", False),
)
_decode_headers = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...]).decode


class DatabaseOutbox:
    """The outbox of ``relation`` in ``database``; see ``outbox.Outbox``. Safe for several threads."""

    def __init__(self, database: Database, pipeline: str, relation: str) -> None:
        self._database = database
        self._pipeline = pipeline
        self._relation = relation

    def open(self) -> OutboxState:
        """Return the state; make the outbox if it does not exist."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            found = self._state(connection)
            if found is not None:
                return found
            made = OutboxState(secrets.token_hex(8), 0, None)
            connection.execute(
                sa.insert(_tables(connection).outboxes).values(
                    pipeline=self._pipeline, relation=self._relation, sender=made.sender, last_number=0
                )
            )
            return made

    def state(self) -> OutboxState | None:
        """Return the state; None: the outbox does not exist."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            return None if version is None or version < OUTBOXES_SINCE else self._state(connection)

    def _state(self, connection: sa.Connection) -> OutboxState | None:
        outboxes = _tables(connection).outboxes
        row = connection.execute(sa.select(outboxes).where(*self._own(outboxes))).one_or_none()
        return None if row is None else OutboxState(row.sender, row.last_number, row.sent_number)

    def add(self, transaction: Transaction, messages: Sequence[NewMessage]) -> None:
        """Add messages with the next numbers."""
        if not messages:
            return
        connection = sql_connection(transaction)
        outboxes = _tables(connection).outboxes
        moved = connection.execute(
            sa.update(outboxes)
            .where(*self._own(outboxes))
            .values(last_number=outboxes.c.last_number + len(messages))
        )
        if moved.rowcount != 1:
            raise FaultError(f'the outbox of "{self._relation}" no longer exists in the checkpoint')
        last: int = connection.execute(
            sa.select(outboxes.c.last_number).where(*self._own(outboxes))
        ).scalar_one()
        transaction.append(
            own_target(connection, "outbox", _COLUMNS),
            {
                "pipeline": [self._pipeline] * len(messages),
                "relation": [self._relation] * len(messages),
                "number": list(range(last - len(messages) + 1, last + 1)),
                "message_key": [each.key for each in messages],
                "message_value": [each.value for each in messages],
                "message_headers": [
                    msgspec.msgpack.encode(each.headers) if each.headers else None for each in messages
                ],
                "partition": [each.partition for each in messages],
                "message_time": [each.timestamp_ms for each in messages],
            },
        )

    def read(self, after: int, messages: int, size: int) -> Sequence[OutgoingMessage]:
        """Return the committed messages after a number, as far as they fit; at least one if there is one."""
        found: list[OutgoingMessage] = []
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            outbox = _tables(connection).outbox
            rows = connection.execute(
                sa.select(outbox)
                .where(*self._own(outbox), outbox.c.number > after)
                .order_by(outbox.c.number)
                .limit(messages),
                execution_options={"yield_per": 500},
            )
            taken = 0
            for row in rows:
                found.append(
                    OutgoingMessage(
                        row.number,
                        None if row.message_value is None else bytes(row.message_value),
                        row.message_time,
                        None if row.message_key is None else bytes(row.message_key),
                        () if row.message_headers is None else _decode_headers(bytes(row.message_headers)),
                        row.partition,
                    )
                )
                taken += len(row.message_value or b"")
                if taken >= size:
                    break
            rows.close()
        return found

    def settle(self, number: int) -> None:
        """Note that all messages up to ``number`` are sent, and delete them."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            tables = _tables(connection)
            outboxes, outbox = tables.outboxes, tables.outbox
            connection.execute(
                sa.update(outboxes)
                .where(
                    *self._own(outboxes),
                    sa.or_(outboxes.c.sent_number.is_(None), outboxes.c.sent_number < number),
                )
                .values(sent_number=number)
            )
            connection.execute(sa.delete(outbox).where(*self._own(outbox), outbox.c.number <= number))

    def _own(self, table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
        return table.c.pipeline == self._pipeline, table.c.relation == self._relation


def _tables(connection: sa.Connection) -> Tables:
    return tables_of(connection.dialect.name)
