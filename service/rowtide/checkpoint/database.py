"""The checkpoint in a relational database, in the tables of ``tables``.

One commit writes in the caller's transaction. ``fence`` comes first: it updates
the row of the pipeline under a condition on the epoch, so it holds the row's
lock to the end, and a superseded process fails before it writes anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa

from rowtide.checkpoint.database_outbox import OUTBOXES_SINCE, DatabaseOutbox
from rowtide.checkpoint.database_snapshots import SnapshotRows
from rowtide.checkpoint.database_statements import DatabaseStatements, drop_statements
from rowtide.checkpoint.error_stream import (
    ALL_ERRORS,
    ErrorFilter,
    count_pending,
    mark_resubmitted,
    read_resubmissions,
    select_errors,
    select_resubmitted,
    stored_error,
)
from rowtide.checkpoint.file_list import drop_lists
from rowtide.checkpoint.leadership import DECISION_FIELDS, DatabaseLeadership, fenced, read_decisions
from rowtide.checkpoint.ledger import (
    RESET,
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    PartitionPosition,
    PendingErrors,
    Record,
    Resubmission,
    SnapshotEntry,
    StoredDecision,
    StoredError,
    takes_any,
)
from rowtide.checkpoint.migrate import check_version, migrate
from rowtide.checkpoint.parts.gathered import gathered
from rowtide.checkpoint.parts.in_database import drop_parts, folder_of, known_folder
from rowtide.checkpoint.polled_log import drop_logs
from rowtide.checkpoint.sessions import written_by
from rowtide.checkpoint.snapshot_part import SnapshotPart
from rowtide.checkpoint.statements import (
    ERROR_COLUMNS,
    insert_of,
    new_row,
    own_target,
    replacing,
)
from rowtide.checkpoint.tables import (
    SINCE_FILES,
    SINCE_PARTS,
    SINCE_POLLS,
    SINCE_TEXT,
    Tables,
    beats_of,
    now,
    tables_of,
    text_of,
    to_ms,
)
from rowtide.checkpoint.texts import as_given, codec_of, storable
from rowtide.errors import FaultError
from rowtide_connectors.api import Database, Transaction
from rowtide_connectors.errors import RefusedRowsError, UnavailableError
from rowtide_connectors.rdbms.transaction import sql_connection


class DatabaseLedger:
    """The checkpoint of ``pipeline`` in ``database``; see ``ledger.Ledger``. Safe for several threads."""

    def __init__(self, database: Database, pipeline: str) -> None:
        self._database = database
        self._pipeline = pipeline

    # ------------------------------------------------------------- the record

    def read(self) -> Record | None:
        """Return the record; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            return self.read_within(transaction)

    def read_within(self, transaction: Transaction) -> Record | None:
        """Return what is recorded as an open transaction sees it; see ``ledger.Ledger``."""
        connection = sql_connection(transaction)
        if not check_version(connection):
            return None
        return self._record(connection)

    def other_plans(self) -> Mapping[str, str]:
        """Return the digests of the others that have committed; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return {}
            pipelines = self._of(connection).pipelines
            others = sa.and_(pipelines.c.pipeline != self._pipeline, pipelines.c.commits > 0)
            rows = connection.execute(sa.select(pipelines.c.pipeline, pipelines.c.digest).where(others))
            return {pipeline: digest for pipeline, digest in rows if digest}

    def text(self) -> str | None:
        """Return the text of the file that runs; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            if version is None or version < SINCE_TEXT:
                return None
            table = text_of(connection.dialect.name)
            kept = sa.select(table.c.content).where(table.c.pipeline == self._pipeline)
            content = connection.execute(kept).scalar_one_or_none()
            return None if content is None else str(json.loads(content))

    def _write_text(self, connection: sa.Connection, text: str | None) -> None:
        """Write the text as JSON: every encoding of a database has its characters."""
        table = text_of(connection.dialect.name)
        content = None if text is None else json.dumps(text)
        connection.execute(sa.update(table).where(table.c.pipeline == self._pipeline).values(content=content))

    def claim(
        self,
        digest: str,
        holder: str,
        refuse: Callable[[Record], None] = takes_any,
        text: str | None = None,
    ) -> Record:
        """Take the next epoch; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            record = self._claimed(connection, digest, holder)
            refuse(record)
            self._write_text(connection, text)
            if not record.has_begun and record.digest != digest:
                pipelines = self._of(connection).pipelines
                connection.execute(
                    sa.update(pipelines).where(pipelines.c.pipeline == self._pipeline).values(digest=digest)
                )
                return self._record(connection) or record
            return record

    def decide(self, holder: str, decide: Callable[[Record], Sequence[Decision]]) -> Record:
        """Take the next epoch and append decisions, or do neither; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            record = self._claimed(sql_connection(transaction), "", holder)
            self.write_decisions(transaction, record.epoch, decide(record))
            return record

    def _claimed(self, connection: sa.Connection, digest: str, holder: str) -> Record:
        migrate(connection)
        pipelines, insert = self._of(connection).pipelines, insert_of(connection)
        at = now(connection.dialect.name)
        statement = insert(pipelines).values(
            pipeline=self._pipeline, epoch=1, holder=holder, claimed_at=at, commits=0, digest=digest
        )
        connection.execute(
            replacing(statement, {"epoch": pipelines.c.epoch + 1, "holder": holder, "claimed_at": at})
        )
        if written := written_by(connection):
            table = beats_of(connection.dialect.name)
            connection.execute(sa.update(table).where(table.c.pipeline == self._pipeline).values(written))
        record = self._record(connection)
        if record is None:
            raise FaultError(f'pipeline "{self._pipeline}" is not in the checkpoint that has just taken it')
        return record

    def fence(self, transaction: Transaction, *, epoch: int, commits: int) -> None:
        """Count one more commit under ``epoch``; see ``ledger.Ledger``."""
        connection = sql_connection(transaction)
        dialect = connection.dialect.name
        table = beats_of(dialect)
        moved = connection.execute(
            sa.update(table)
            .where(
                table.c.pipeline == self._pipeline,
                table.c.epoch == epoch,
                table.c.commits == commits,
            )
            .values(commits=commits + 1, committed_at=now(dialect), **written_by(connection))
        )
        if moved.rowcount == 1:
            return
        if error := fenced(connection, self._pipeline, epoch, commits):
            raise error
        raise FaultError(f'the record of pipeline "{self._pipeline}" cannot be moved to commit {commits + 1}')

    def _record(self, connection: sa.Connection) -> Record | None:
        tables = self._of(connection)
        row = connection.execute(
            sa.select(tables.pipelines).where(tables.pipelines.c.pipeline == self._pipeline)
        ).one_or_none()
        if row is None:
            return None
        positions = connection.execute(
            sa.select(tables.positions)
            .where(tables.positions.c.pipeline == self._pipeline)
            .order_by(tables.positions.c.relation, tables.positions.c.partition)
        )
        partition_positions = tuple(
            PartitionPosition(
                each.relation,
                each.topic,
                each.partition,
                each.next_offset,
                each.start_offset,
                each.bound,
                each.topic_id,
            )
            for each in positions
        )
        committed_at = None if row.committed_at is None else to_ms(row.committed_at)
        return Record(
            row.epoch, row.holder, row.commits, row.digest, partition_positions, committed_at, row.changed_at
        )

    # ------------------------------------------------------- what a commit adds

    def write_positions(
        self, transaction: Transaction, epoch: int, partition_positions: Sequence[PartitionPosition]
    ) -> None:
        """Record the positions of partitions; see ``ledger.Ledger``."""
        if not partition_positions:
            return
        connection = sql_connection(transaction)
        positions = self._of(connection).positions
        at = now(connection.dialect.name)
        statement = insert_of(connection)(positions).values(
            pipeline=self._pipeline,
            epoch=epoch,
            committed_at=at,
            **{name: sa.bindparam(name) for name in _POSITION_FIELDS},
        )
        new = new_row(statement)
        backwards = connection.dialect.name == "mysql" and self._is_backwards(connection, partition_positions)
        changes = {
            "topic": new.topic,
            "next_offset": new.next_offset,
            "bound": new.bound,
            "epoch": epoch,
            "committed_at": at,
        }
        written = connection.execute(
            replacing(statement, changes, positions.c.next_offset <= new.next_offset),
            [
                {name: getattr(position, name) for name in _POSITION_FIELDS}
                for position in partition_positions
            ],
            execution_options={"preserve_rowcount": True},
        )
        # MySQL counts a replaced row twice.
        if backwards or (connection.dialect.name != "mysql" and written.rowcount != len(partition_positions)):
            raise FaultError(f'a position of pipeline "{self._pipeline}" would move backwards')

    def _is_backwards(
        self, connection: sa.Connection, partition_positions: Sequence[PartitionPosition]
    ) -> bool:
        """Return whether a position would move backwards; ``fence`` holds off other commits."""
        positions = self._of(connection).positions
        rows = connection.execute(
            sa.select(positions.c.relation, positions.c.partition, positions.c.next_offset).where(
                positions.c.pipeline == self._pipeline
            )
        )
        stored = {(row.relation, row.partition): row.next_offset for row in rows}
        return any(
            stored.get(each.place, each.next_offset) > each.next_offset for each in partition_positions
        )

    def write_errors(self, transaction: Transaction, epoch: int, rows: Sequence[ErrorRow]) -> None:
        """Append rows to the error stream's table.

        Raises:
          UnavailableError: the database refuses them.
        """
        connection = sql_connection(transaction)
        codec = codec_of(connection)
        try:
            transaction.append(
                own_target(connection, "errors", ERROR_COLUMNS),
                {
                    "pipeline": [self._pipeline] * len(rows),
                    "kind": [row.kind for row in rows],
                    "relation": [row.relation for row in rows],
                    "reason": [storable(row.reason, codec) for row in rows],
                    "topic": [row.topic for row in rows],
                    "partition": [row.partition for row in rows],
                    "message_offset": [row.offset for row in rows],
                    "rowtime": [row.rowtime for row in rows],
                    "bound": [row.bound for row in rows],
                    "late_by": [row.late_by_ms for row in rows],
                    "raw": [row.raw for row in rows],
                    "row_json": [None if row.row is None else storable(row.row, codec) for row in rows],
                    "epoch": [epoch] * len(rows),
                    "stream": [row.stream for row in rows],
                    "message_time": [row.message_time for row in rows],
                    "message_key": [row.key for row in rows],
                    "message_headers": [
                        None if row.headers is None else storable(row.headers, codec) for row in rows
                    ],
                },
            )
        except RefusedRowsError as error:
            raise UnavailableError(
                f"the checkpoint cannot store error rows: {error.message}",
                hint="The tables of the checkpoint are Rowtide's: drop constraints and triggers that were added.",
            ) from error

    def write_decisions(self, transaction: Transaction, epoch: int, decisions: Sequence[Decision]) -> None:
        """Append decisions to the log; see ``ledger.Ledger``."""
        if not decisions:
            return
        connection = sql_connection(transaction)
        table = self._of(connection).decisions
        for each in decisions:
            connection.execute(
                sa.delete(table).where(
                    table.c.pipeline == self._pipeline,
                    table.c.kind == each.kind,
                    table.c.relation == each.relation,
                    table.c.partition == each.partition,
                    table.c.next_offset == each.next_offset,
                    table.c.reader.is_not_distinct_from(each.reader),
                )
            )
        connection.execute(
            sa.insert(table).values(
                pipeline=self._pipeline,
                epoch=epoch,
                committed_at=now(connection.dialect.name),
                **{name: sa.bindparam(name) for name in DECISION_FIELDS},
            ),
            [{name: getattr(decision, name) for name in DECISION_FIELDS} for decision in decisions],
        )

    def replace_plan(
        self, transaction: Transaction, digest: str, gone: Sequence[str], text: str | None = None
    ) -> None:
        """Record that the commit under way is the first of another plan; see ``ledger.Ledger``."""
        connection = sql_connection(transaction)
        tables = self._of(connection)
        pipelines, positions = tables.pipelines, tables.positions
        connection.execute(
            sa.update(pipelines)
            .where(pipelines.c.pipeline == self._pipeline)
            .values(digest=digest, changed_at=pipelines.c.commits)
        )
        self._write_text(connection, text)
        connection.execute(
            sa.delete(positions).where(positions.c.pipeline == self._pipeline, positions.c.relation.in_(gone))
        )
        drop_logs(connection, tables, self._pipeline, gone)
        drop_lists(connection, tables, self._pipeline, gone)
        decisions = tables.decisions
        connection.execute(
            sa.delete(decisions).where(decisions.c.pipeline == self._pipeline, decisions.c.kind == RESET)
        )
        self._snapshots_in(connection).drop()

    def write_accounts(self, transaction: Transaction, accounts: Sequence[KeptAccount]) -> None:
        """Record accounts; see ``ledger.Ledger``."""
        if not accounts:
            return
        connection = sql_connection(transaction)
        table = self._of(connection).accounts
        at = now(connection.dialect.name)
        statement = insert_of(connection)(table).values(
            pipeline=self._pipeline, committed_at=at, **{name: sa.bindparam(name) for name in _ACCOUNT}
        )
        new = new_row(statement)
        counted = {name: new[name] for name in _ACCOUNT[2:]}
        connection.execute(
            replacing(statement, {**counted, "committed_at": at}),
            [{name: getattr(each, name) for name in _ACCOUNT} for each in accounts],
        )

    def leadership(self) -> DatabaseLeadership:
        """Return the signs of life of the process that holds the epoch; see ``ledger.Ledger``."""
        return DatabaseLeadership(self._database, self._pipeline)

    def outbox(self, relation: str) -> DatabaseOutbox:
        """Return the outbox of a foreign stream; see ``ledger.Ledger``."""
        return DatabaseOutbox(self._database, self._pipeline, relation)

    def statements(self) -> DatabaseStatements:
        """Return the statements that are sent to the running pipeline; see ``ledger.Ledger``."""
        return DatabaseStatements(self._database, self._pipeline)

    def accounts(self) -> Sequence[KeptAccount]:
        """Return all accounts as of the last commit."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            table = self._of(connection).accounts
            rows = connection.execute(
                sa.select(*(table.c[name] for name in _ACCOUNT))
                .where(table.c.pipeline == self._pipeline)
                .order_by(table.c.part, table.c.relation)
            )
            return [KeptAccount(*row) for row in rows]

    def write_snapshot(self, transaction: Transaction, epoch: int, snapshot: KeptSnapshot) -> int:
        """Keep a snapshot, and of the older ones only ``KEPT_SNAPSHOTS - 1``."""
        return self._snapshots_in(sql_connection(transaction)).write(epoch, snapshot)

    def write_snapshot_part(self, transaction: Transaction, epoch: int, part: SnapshotPart) -> bool:
        """Keep a part of a snapshot; see ``ledger.Ledger``."""
        return self._snapshots_in(sql_connection(transaction)).write_part(epoch, part)

    # ----------------------------------------------------------------- readers

    def newest_snapshot(self) -> KeptSnapshot | None:
        """Return the newest undamaged snapshot that this version can read; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            found = None if version is None else self._snapshots_in(connection).newest(version)
        return gathered(found, self._database, self.snapshots)

    def parts_folder(self) -> str:
        """Return the folder of the pipeline in any store of state in parts."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            return folder_of(connection, self._of(connection), self._pipeline)

    def known_parts_folder(self) -> str | None:
        """Return the same; None: nothing has asked for it before."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if (check_version(connection) or "") < SINCE_PARTS:
                return None
            return known_folder(connection, self._of(connection), self._pipeline)

    def named_blobs(self) -> Sequence[str]:
        """Return the names of the blobs that the stored snapshots name."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            return self._snapshots_in(connection).named_blobs() if check_version(connection) else ()

    def snapshots(self) -> Sequence[SnapshotEntry]:
        """Return the entries of stored snapshots, the newest first."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            return self._snapshots_in(connection).entries() if check_version(connection) else ()

    def drop_snapshots(self) -> int:
        """Drop all snapshots of the pipeline; return their number. The next start replays the log instead."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            return self._snapshots_in(connection).drop() if check_version(connection) else 0

    def decisions(self) -> Sequence[Decision]:
        """Return all decisions, in the order in which they were committed."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            return [each for _, each in read_decisions(connection, self._pipeline, after=0)]

    def last_decisions(self, limit: int, before: int | None = None) -> Sequence[StoredDecision]:
        """Return the last decisions, the newest first; with ``before``, those with lower numbers."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            table = self._of(connection).decisions
            query = sa.select(table).where(table.c.pipeline == self._pipeline)
            if before is not None:
                query = query.where(table.c.decision_id < before)
            rows = connection.execute(query.order_by(table.c.decision_id.desc()).limit(limit))
            return [
                StoredDecision(
                    row.decision_id,
                    Decision(*(getattr(row, name) for name in DECISION_FIELDS)),
                    row.epoch,
                    to_ms(row.committed_at),
                )
                for row in rows
            ]

    def errors(self, wanted: ErrorFilter = ALL_ERRORS, limit: int | None = 100) -> Sequence[StoredError]:
        """Return committed error rows, the oldest first."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            query = select_errors(self._of(connection), self._pipeline, wanted)
            return [stored_error(row) for row in connection.execute(query.limit(limit))]

    def pending_errors(self) -> PendingErrors:
        """Count the error rows that are not resubmitted."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return PendingErrors({}, None)
            return count_pending(connection, self._of(connection), self._pipeline)

    def refused_within(self, transaction: Transaction, table: str) -> Sequence[tuple[int | None, str | None]]:
        """Return rowtime and JSON of the rows that a foreign table did not take; see ``ledger.Ledger``."""
        connection = sql_connection(transaction)
        wanted = ErrorFilter(relation=table, reason="CONSTRAINT")
        query = select_errors(self._of(connection), self._pipeline, wanted)
        codec = codec_of(connection)
        return [
            (row.rowtime, None if row.row_json is None else as_given(row.row_json, codec))
            for row in connection.execute(query)
        ]

    def resubmit(
        self, rows: Sequence[StoredError], refuse: Callable[[str], None] = lambda _holder: None
    ) -> int:
        """Mark error rows as resubmitted; return the number of resubmissions.

        ``refuse`` is called with the holder of the epoch, within the transaction.

        Raises:
          OvertakenError: one of them was resubmitted meanwhile; nothing has changed.
          StatementError: the pipeline has too many resubmissions; nothing has changed.
          What ``refuse`` raises; nothing has changed.
        """
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            migrate(connection)
            return mark_resubmitted(connection, self._of(connection), self._pipeline, rows, refuse)

    def resubmissions(self) -> Sequence[Resubmission]:
        """Return the resubmissions, in order; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            if not check_version(connection):
                return ()
            return read_resubmissions(connection, self._of(connection), self._pipeline)

    def resubmitted(self, number: int) -> Sequence[StoredError]:
        """Return the rows of one resubmission; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            query = select_resubmitted(self._of(connection), self._pipeline, number)
            return [stored_error(row) for row in connection.execute(query)]

    def drop(self) -> bool:
        """Drop the pipeline's epoch, positions, errors, decisions and snapshots; False: it has none.

        The rows in foreign tables stay. A process that still runs the pipeline fails at its next commit.
        """
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            if not version:
                return False
            tables = self._of(connection)
            known = connection.execute(
                sa.delete(tables.pipelines).where(tables.pipelines.c.pipeline == self._pipeline)
            ).rowcount
            self._snapshots_in(connection).drop()
            outboxes = (tables.outboxes, tables.outbox) if version >= OUTBOXES_SINCE else ()
            for table in (tables.positions, tables.decisions, tables.errors, tables.accounts, *outboxes):
                connection.execute(sa.delete(table).where(table.c.pipeline == self._pipeline))
            if version >= SINCE_POLLS:
                drop_logs(connection, tables, self._pipeline)
            if version >= SINCE_FILES:
                drop_lists(connection, tables, self._pipeline)
            drop_statements(connection, tables, self._pipeline)
            if version >= SINCE_PARTS:
                drop_parts(connection, tables, self._pipeline)
            return bool(known)

    def _snapshots_in(self, connection: sa.Connection) -> SnapshotRows:
        return SnapshotRows(connection, self._of(connection), self._pipeline)

    @staticmethod
    def _of(connection: sa.Connection) -> Tables:
        return tables_of(connection.dialect.name)


_POSITION_FIELDS = ("relation", "topic", "partition", "next_offset", "start_offset", "bound", "topic_id")
_ACCOUNT = ("part", "relation", "rows_in", "done", "filtered", "late", "rejected", "held", "rows_out")
