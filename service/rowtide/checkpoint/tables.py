"""The checkpoint's tables: names and columns, as the migrations create them.

They are in schema ``rowtide``. If the database has no schemas within it (SQLite, MySQL), their names
begin with ``rowtide_`` instead (docs/sql/semantics.md#checkpoint-and-plan-digest).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from rowtide_connectors.checkpoint_tables import CHECKPOINT_SCHEMA

SCHEMA = CHECKPOINT_SCHEMA
VERSION_TABLE = "version"
SINCE = "since"
"""Names the migration that adds a column to a table which can be read before it is upgraded."""

SINCE_POLLS = "0008"
"""The migration that adds the tables of polled tables."""
SINCE_FILES = "0012"
"""The migration that adds the list of files."""

SINCE_STATEMENTS = "0013"
"""The migration that adds the statements that are sent to a running pipeline."""

SINCE_BEATS = "0011"
"""The migration that adds the heartbeats of leaders."""

SINCE_TEXT = "0014"
"""The migration that adds the text of the file that runs."""

SINCE_SESSIONS = "0015"
"""The migration that adds the session that has written the record of a pipeline."""

SINCE_PARTS = "0016"
"""The migration that adds the blobs of state in parts."""

_EPOCH = datetime(1970, 1, 1)


def schema_of(dialect: str) -> str | None:
    """Return the schema of the tables; None: their names have a prefix."""
    return SCHEMA if dialect == "postgresql" else None


def named(dialect: str, name: str) -> str:
    """Return a table's name within its schema."""
    return name if schema_of(dialect) else f"{SCHEMA}_{name}"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one database."""

    pipelines: sa.Table
    positions: sa.Table
    errors: sa.Table
    decisions: sa.Table
    accounts: sa.Table
    snapshots: sa.Table
    snapshot_chunks: sa.Table
    polls: sa.Table
    polled_rows: sa.Table
    polled_changes: sa.Table
    outboxes: sa.Table
    outbox: sa.Table
    listed_files: sa.Table
    statements: sa.Table
    statement_changes: sa.Table
    state_parts: sa.Table


@cache
def tables_of(dialect: str) -> Tables:
    """Return the tables for a database of this dialect, the same ones each time.

    SQLAlchemy compiles a statement once for tables that it knows.
    """
    metadata = sa.MetaData(schema=schema_of(dialect))

    def table(name: str, *columns: sa.Column[object]) -> sa.Table:
        return sa.Table(named(dialect, name), metadata, *columns)

    return Tables(
        pipelines=table(
            "pipelines",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("epoch", sa.BigInteger),
            sa.Column("holder", sa.Text),
            sa.Column("claimed_at", sa.DateTime),
            sa.Column("commits", sa.BigInteger),
            sa.Column("committed_at", sa.DateTime),
            sa.Column("digest", sa.Text),
            sa.Column("changed_at", sa.BigInteger),
        ),
        positions=table(
            "positions",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("topic", sa.Text),
            sa.Column("partition", sa.Integer, primary_key=True),
            sa.Column("next_offset", sa.BigInteger),
            sa.Column("bound", sa.BigInteger),
            sa.Column("epoch", sa.BigInteger),
            sa.Column("committed_at", sa.DateTime),
            sa.Column("start_offset", sa.BigInteger),
            sa.Column("topic_id", sa.Text),
        ),
        errors=table(
            "errors",
            sa.Column("error_id", sa.BigInteger, primary_key=True),
            sa.Column("pipeline", sa.Text),
            sa.Column("kind", sa.Text),
            sa.Column("relation", sa.Text),
            sa.Column("reason", sa.Text),
            sa.Column("topic", sa.Text),
            sa.Column("partition", sa.Integer),
            sa.Column("message_offset", sa.BigInteger),
            sa.Column("rowtime", sa.BigInteger),
            sa.Column("bound", sa.BigInteger),
            sa.Column("late_by", sa.BigInteger),
            sa.Column("raw", sa.LargeBinary),
            sa.Column("row_json", sa.Text),
            sa.Column("epoch", sa.BigInteger),
            sa.Column("committed_at", sa.DateTime),
            sa.Column("stream", sa.Text),
            sa.Column("message_time", sa.BigInteger),
            sa.Column("resubmitted", sa.Integer),
            sa.Column("resubmitted_at", sa.DateTime),
            sa.Column("message_key", sa.LargeBinary),
            sa.Column("message_headers", sa.Text),
        ),
        decisions=table(
            "decisions",
            sa.Column("decision_id", sa.BigInteger, primary_key=True),
            sa.Column("pipeline", sa.Text),
            sa.Column("kind", sa.Text),
            sa.Column("relation", sa.Text),
            sa.Column("partition", sa.Integer),
            sa.Column("next_offset", sa.BigInteger),
            sa.Column("bound", sa.BigInteger),
            sa.Column("epoch", sa.BigInteger),
            sa.Column("committed_at", sa.DateTime),
            sa.Column("reader", sa.Text),
        ),
        accounts=table(
            "accounts",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("part", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("rows_in", sa.BigInteger),
            sa.Column("done", sa.BigInteger),
            sa.Column("filtered", sa.BigInteger),
            sa.Column("late", sa.BigInteger),
            sa.Column("rejected", sa.BigInteger),
            sa.Column("held", sa.BigInteger),
            sa.Column("rows_out", sa.BigInteger),
            sa.Column("committed_at", sa.DateTime),
        ),
        snapshots=table(
            "snapshots",
            sa.Column("snapshot_id", sa.BigInteger, primary_key=True),
            sa.Column("pipeline", sa.Text),
            sa.Column("epoch", sa.BigInteger),
            sa.Column("commits", sa.BigInteger),
            sa.Column("manifest", sa.Text),
            sa.Column("bytes", sa.BigInteger),
            sa.Column("stored_at", sa.DateTime),
            sa.Column("checksum", sa.Text, info={SINCE: "0007"}),
        ),
        snapshot_chunks=table(
            "snapshot_chunks",
            sa.Column("snapshot_id", sa.BigInteger, primary_key=True),
            sa.Column("part", sa.Integer, primary_key=True),
            sa.Column("chunk", sa.Integer, primary_key=True),
            sa.Column("content", sa.LargeBinary),
        ),
        polls=table(
            "polls",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("next_offset", sa.BigInteger),
            sa.Column("read_from", sa.Text),
            sa.Column("bound", sa.BigInteger),
            sa.Column("pending", sa.BigInteger),
            sa.Column("reached", sa.Text),
            sa.Column("compared_ms", sa.BigInteger),
        ),
        polled_rows=table(
            "polled_rows",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("key_digest", sa.Text, primary_key=True),
            sa.Column("row_digest", sa.Text),
            sa.Column("message_key", sa.LargeBinary),
        ),
        polled_changes=table(
            "polled_changes",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("message_offset", sa.BigInteger, primary_key=True),
            sa.Column("rowtime", sa.BigInteger),
            sa.Column("message_key", sa.LargeBinary),
            sa.Column("content", sa.LargeBinary),
            sa.Column("bound", sa.BigInteger),
        ),
        outboxes=table(
            "outboxes",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("sender", sa.Text),
            sa.Column("last_number", sa.BigInteger),
            sa.Column("sent_number", sa.BigInteger),
        ),
        outbox=table(
            "outbox",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("number", sa.BigInteger, primary_key=True),
            sa.Column("message_key", sa.LargeBinary),
            sa.Column("message_value", sa.LargeBinary),
            sa.Column("message_headers", sa.LargeBinary),
            sa.Column("partition", sa.Integer),
            sa.Column("message_time", sa.BigInteger),
        ),
        listed_files=table(
            "listed_files",
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("number", sa.BigInteger, primary_key=True),
            sa.Column("name", sa.Text),
            sa.Column("partition", sa.Integer),
            sa.Column("size_bytes", sa.BigInteger),
            sa.Column("modified", sa.BigInteger),
            sa.Column("epoch", sa.BigInteger),
        ),
        statements=table(
            "statements",
            sa.Column("statement_id", sa.BigInteger, primary_key=True),
            sa.Column("pipeline", sa.Text),
            sa.Column("content", sa.Text),
            sa.Column("outcome", sa.Text),
            sa.Column("sent_at", sa.DateTime),
            sa.Column("settled_at", sa.DateTime),
            sa.Column("commits", sa.BigInteger),
            sa.Column("number", sa.BigInteger),
            sa.Column("rowtime", sa.BigInteger),
            sa.Column("changed_rows", sa.BigInteger),
            sa.Column("did", sa.Text),
            sa.Column("error", sa.Text),
        ),
        statement_changes=table(
            "statement_changes",
            sa.Column("statement_id", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("relation", sa.Text, primary_key=True),
            sa.Column("content", sa.LargeBinary),
        ),
        state_parts=table(
            "state_parts",
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("content", sa.LargeBinary),
        ),
    )


@cache
def beats_of(dialect: str) -> sa.Table:
    """Return the columns of the table of pipelines that a leader writes, and by which replicas see that it leads.

    They are read apart from the record, which a start also reads before the tables are upgraded.
    """
    return sa.Table(
        named(dialect, "pipelines"),
        sa.MetaData(schema=schema_of(dialect)),
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger),
        sa.Column("commits", sa.BigInteger),
        sa.Column("committed_at", sa.DateTime),
        sa.Column("beats", sa.BigInteger),
        sa.Column("session", sa.BigInteger),
    )


def text_of(dialect: str) -> sa.Table:
    """Return the columns of the table of pipelines with the text of the file that runs, apart from the record, too."""
    return sa.Table(
        named(dialect, "pipelines"),
        sa.MetaData(schema=schema_of(dialect)),
        sa.Column("pipeline", sa.Text, primary_key=True),
        sa.Column("content", sa.Text),
    )


def columns_at(table: sa.Table, version: str) -> list[sa.ColumnElement[Any]]:
    """Return the columns of a table of this version. Columns that it does not have yet are NULL."""
    return [
        column if column.info.get(SINCE, "") <= version else sa.null().label(column.name)
        for column in table.columns
    ]


def now(dialect: str) -> sa.ColumnElement[datetime]:
    """Return the database's own time, UTC without zone. The service's clock is not used."""
    if dialect == "sqlite":
        return sa.literal_column("strftime('%Y-%m-%d %H:%M:%f000', 'now')", sa.DateTime)
    if dialect == "mysql":
        return sa.literal_column("utc_timestamp(6)", sa.DateTime)
    return sa.literal_column("timezone('utc', now())", sa.DateTime)


def to_ms(moment: datetime) -> int:
    """Return a time of the database as ms since the epoch."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)
