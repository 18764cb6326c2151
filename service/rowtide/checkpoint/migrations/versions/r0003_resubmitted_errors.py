"""Error rows have their stream and message time, and whether they were resubmitted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; they are NULL in earlier error rows."""
    dialect = op.get_bind().dialect.name
    errors, schema = named(dialect, "errors"), schema_of(dialect)
    for column in (
        sa.Column("stream", sa.Text),
        sa.Column("message_time", sa.BigInteger),
        sa.Column("resubmitted", sa.Integer),
        sa.Column("resubmitted_at", sa.DateTime),
    ):
        op.add_column(errors, column, schema=schema)
    # A running service queries it every few seconds, and few error rows are ever resubmitted.
    only = sa.text("resubmitted is not null")
    op.create_index(
        "rowtide_errors_resubmitted",
        errors,
        ["pipeline", "resubmitted"],
        schema=schema,
        sqlite_where=only,
        postgresql_where=only,
    )
