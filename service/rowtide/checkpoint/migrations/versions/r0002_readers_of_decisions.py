"""Decisions may be for one reader of a partition: a partition that joins gets the bound of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; earlier decisions were for all readers."""
    dialect = op.get_bind().dialect.name
    op.add_column(named(dialect, "decisions"), sa.Column("reader", sa.Text), schema=schema_of(dialect))
