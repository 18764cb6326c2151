"""Messages for topics wait in outboxes."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import BYTES, PIPELINE, RELATION, TEXT, create

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the tables."""
    create(
        "outboxes",
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("relation", RELATION, nullable=False),
        sa.Column("sender", TEXT, nullable=False),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.Column("sent_number", sa.BigInteger),
        sa.PrimaryKeyConstraint("pipeline", "relation"),
    )
    create(
        "outbox",
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("relation", RELATION, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("message_key", BYTES),
        sa.Column("message_value", BYTES, nullable=False),
        sa.Column("message_headers", BYTES),
        sa.Column("partition", sa.Integer),
        sa.Column("message_time", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "relation", "number"),
    )
