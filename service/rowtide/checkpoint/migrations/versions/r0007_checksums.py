"""Snapshots have a checksum."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; existing snapshots have no checksum."""
    dialect = op.get_bind().dialect.name
    op.add_column(named(dialect, "snapshots"), sa.Column("checksum", sa.Text), schema=schema_of(dialect))
