"""Accounts of relations are kept, so that they count from the pipeline's beginning."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; earlier counts are unknown."""
    dialect = op.get_bind().dialect.name
    counted = ("rows_in", "done", "filtered", "late", "rejected", "held", "rows_out")
    op.create_table(
        named(dialect, "accounts"),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("relation", sa.Text, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in counted),
        sa.Column("committed_at", sa.DateTime, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "part", "relation"),
        schema=schema_of(dialect),
    )
