"""The first version of the checkpoint tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    dialect = op.get_bind().dialect.name
    # SQLite numbers rows automatically only in a column of this type.
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    text, integer, time = sa.Text, sa.BigInteger, sa.DateTime

    if dialect == "sqlite":
        moment = sa.text("(strftime('%Y-%m-%d %H:%M:%f000', 'now'))")
    else:
        moment = sa.text("timezone('utc', now())")

    def create(name: str, *items: sa.schema.SchemaItem) -> None:
        op.create_table(named(dialect, name), *items, schema=schema_of(dialect))

    create(
        "pipelines",
        sa.Column("pipeline", text, primary_key=True),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("holder", text, nullable=False),
        sa.Column("claimed_at", time, nullable=False),
        sa.Column("commits", integer, nullable=False),
        sa.Column("committed_at", time),
        sa.Column("digest", text, nullable=False),
    )
    create(
        "positions",
        sa.Column("pipeline", text, nullable=False),
        sa.Column("relation", text, nullable=False),
        sa.Column("topic", text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("next_offset", integer, nullable=False),
        sa.Column("bound", integer),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", time, nullable=False),
        sa.Column("start_offset", integer, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "relation", "partition"),
    )
    create(
        "errors",
        sa.Column("error_id", number, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("relation", text, nullable=False),
        sa.Column("reason", text, nullable=False),
        sa.Column("topic", text),
        sa.Column("partition", sa.Integer),
        sa.Column("message_offset", integer),
        sa.Column("rowtime", integer),
        sa.Column("bound", integer),
        sa.Column("late_by", integer),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("row_json", text),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", time, server_default=moment, nullable=False),
    )
    create(
        "decisions",
        sa.Column("decision_id", number, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("relation", text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("next_offset", integer, nullable=False),
        sa.Column("bound", integer),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("committed_at", time, nullable=False),
    )
    create(
        "snapshots",
        sa.Column("snapshot_id", number, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", text, nullable=False),
        sa.Column("epoch", integer, nullable=False),
        sa.Column("commits", integer, nullable=False),
        sa.Column("manifest", text, nullable=False),
        sa.Column("bytes", integer, nullable=False),
        sa.Column("stored_at", time, nullable=False),
    )
    create(
        "snapshot_chunks",
        sa.Column("snapshot_id", integer, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("chunk", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "part", "chunk"),
    )
    if dialect == "postgresql":
        # The chunks are already compressed; PostgreSQL would compress them again, slowly and without effect.
        op.execute("alter table rowtide.snapshot_chunks alter column content set storage external")
    for name in ("errors", "decisions", "snapshots"):
        op.create_index(
            f"rowtide_{name}_by_pipeline", named(dialect, name), ["pipeline"], schema=schema_of(dialect)
        )
