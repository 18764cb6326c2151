"""The first version of the checkpoint tables."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import (
    BYTES,
    NUMBER,
    PIPELINE,
    RELATION,
    TEXT,
    TIME,
    create,
    index,
    operations,
)

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    dialect = operations().get_bind().dialect.name
    integer = sa.BigInteger
    moments = {
        "sqlite": "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))",
        "mysql": "(utc_timestamp(6))",
        "postgresql": "timezone('utc', now())",
    }

    create(
        "pipelines",
        sa.Column("pipeline", PIPELINE, primary_key=True),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        sa.Column("claimed_at", TIME, nullable=False),
        sa.Column("commits", integer, nullable=False),
        sa.Column("committed_at", TIME),
        sa.Column("digest", TEXT, nullable=False),
    )
    create(
        "positions",
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("relation", RELATION, nullable=False),
        sa.Column("topic", TEXT, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("next_offset", integer, nullable=False),
        sa.Column("bound", integer),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", TIME, nullable=False),
        sa.Column("start_offset", integer, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "relation", "partition"),
    )
    create(
        "errors",
        sa.Column("error_id", NUMBER, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("relation", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("topic", TEXT),
        sa.Column("partition", sa.Integer),
        sa.Column("message_offset", integer),
        sa.Column("rowtime", integer),
        sa.Column("bound", integer),
        sa.Column("late_by", integer),
        sa.Column("raw", BYTES),
        sa.Column("row_json", TEXT),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", TIME, server_default=sa.text(moments[dialect]), nullable=False),
    )
    create(
        "decisions",
        sa.Column("decision_id", NUMBER, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("relation", TEXT, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("next_offset", integer, nullable=False),
        sa.Column("bound", integer),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", TIME, nullable=False),
    )
    create(
        "snapshots",
        sa.Column("snapshot_id", NUMBER, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("commits", integer, nullable=False),
        sa.Column("manifest", TEXT, nullable=False),
        sa.Column("bytes", integer, nullable=False),
        sa.Column("stored_at", TIME, nullable=False),
    )
    create(
        "snapshot_chunks",
        sa.Column("snapshot_id", integer, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("chunk", sa.Integer, nullable=False),
        sa.Column("content", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "part", "chunk"),
    )
    if dialect == "postgresql":
        # The chunks are already compressed; PostgreSQL would compress them again, slowly and without effect.
        operations().execute("alter table rowtide.snapshot_chunks alter column content set storage external")
    for name in ("errors", "decisions", "snapshots"):
        index(f"rowtide_{name}_by_pipeline", name, ["pipeline"])
