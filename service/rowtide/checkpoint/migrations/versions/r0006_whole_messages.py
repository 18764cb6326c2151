"""Error rows have their message's key and headers; positions have the id of their topic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns; they are unknown for existing rows."""
    dialect = op.get_bind().dialect.name
    for table, column in (
        ("errors", sa.Column("message_key", sa.LargeBinary)),
        ("errors", sa.Column("message_headers", sa.Text)),
        ("positions", sa.Column("topic_id", sa.Text)),
    ):
        op.add_column(named(dialect, table), column, schema=schema_of(dialect))
