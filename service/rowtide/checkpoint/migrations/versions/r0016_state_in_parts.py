"""Blobs of state in parts may be in the database."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import BYTES, RELATION, create

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the table."""
    create(
        "state_parts",
        sa.Column("name", RELATION, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", BYTES, nullable=False),
    )
