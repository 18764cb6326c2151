"""Error rows have their stream and message time, and whether they were resubmitted."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import TEXT, TIME, add, index

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; they are NULL in earlier error rows."""
    for column in (
        sa.Column("stream", TEXT),
        sa.Column("message_time", sa.BigInteger),
        sa.Column("resubmitted", sa.Integer),
        sa.Column("resubmitted_at", TIME),
    ):
        add("errors", column)
    # A running service queries it every few seconds, and few error rows are ever resubmitted.
    only = sa.text("resubmitted is not null")
    index(
        "rowtide_errors_resubmitted",
        "errors",
        ["pipeline", "resubmitted"],
        sqlite_where=only,
        postgresql_where=only,
    )
