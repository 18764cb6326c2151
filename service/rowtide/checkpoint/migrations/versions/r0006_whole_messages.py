"""Error rows have their message's key and headers; positions have the id of their topic."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import BYTES, TEXT, add

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns; they are unknown for existing rows."""
    for table, column in (
        ("errors", sa.Column("message_key", BYTES)),
        ("errors", sa.Column("message_headers", TEXT)),
        ("positions", sa.Column("topic_id", TEXT)),
    ):
        add(table, column)
