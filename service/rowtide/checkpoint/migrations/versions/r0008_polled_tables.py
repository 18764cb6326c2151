"""Tables of databases are logged: how far their polls got, their rows, and the changes."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import BYTES, DIGEST, PIPELINE, RELATION, TEXT, create

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""

    def owner() -> list[sa.Column[str]]:
        return [
            sa.Column("pipeline", PIPELINE, primary_key=True),
            sa.Column("relation", RELATION, primary_key=True),
        ]

    create(
        "polls",
        *owner(),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("read_from", TEXT, nullable=False),
        sa.Column("bound", sa.BigInteger),
        sa.Column("pending", sa.BigInteger),
        sa.Column("reached", TEXT),
        sa.Column("compared_ms", sa.BigInteger),
    )
    create(
        "polled_rows",
        *owner(),
        sa.Column("key_digest", DIGEST, primary_key=True),
        sa.Column("row_digest", TEXT, nullable=False),
        sa.Column("message_key", BYTES, nullable=False),
    )
    create(
        "polled_changes",
        *owner(),
        sa.Column("message_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("rowtime", sa.BigInteger, nullable=False),
        sa.Column("message_key", BYTES),
        sa.Column("content", BYTES),
        sa.Column("bound", sa.BigInteger),
    )
