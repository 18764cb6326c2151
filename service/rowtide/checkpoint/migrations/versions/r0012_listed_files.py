"""Files that streams read are listed, with their numbers."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import PIPELINE, RELATION, TEXT, create

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table."""
    create(
        "listed_files",
        sa.Column("pipeline", PIPELINE, primary_key=True),
        sa.Column("relation", RELATION, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("modified", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
