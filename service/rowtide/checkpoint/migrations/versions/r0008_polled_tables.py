"""Tables of databases are logged: how far their polls got, their rows, and the changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""
    dialect = op.get_bind().dialect.name
    schema = schema_of(dialect)

    def owner() -> list[sa.Column[str]]:
        return [
            sa.Column("pipeline", sa.Text, primary_key=True),
            sa.Column("relation", sa.Text, primary_key=True),
        ]

    op.create_table(
        named(dialect, "polls"),
        *owner(),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("read_from", sa.Text, nullable=False),
        sa.Column("bound", sa.BigInteger),
        sa.Column("pending", sa.BigInteger),
        sa.Column("reached", sa.Text),
        sa.Column("compared_ms", sa.BigInteger),
        schema=schema,
    )
    op.create_table(
        named(dialect, "polled_rows"),
        *owner(),
        sa.Column("key_digest", sa.Text, primary_key=True),
        sa.Column("row_digest", sa.Text, nullable=False),
        sa.Column("message_key", sa.LargeBinary, nullable=False),
        schema=schema,
    )
    op.create_table(
        named(dialect, "polled_changes"),
        *owner(),
        sa.Column("message_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("rowtime", sa.BigInteger, nullable=False),
        sa.Column("message_key", sa.LargeBinary),
        sa.Column("content", sa.LargeBinary),
        sa.Column("bound", sa.BigInteger),
        schema=schema,
    )
