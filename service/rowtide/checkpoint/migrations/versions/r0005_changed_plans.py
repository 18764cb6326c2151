"""Pipelines have the commit with which another plan took over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowtide.checkpoint.tables import named, schema_of

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; no plan was changed before."""
    dialect = op.get_bind().dialect.name
    op.add_column(
        named(dialect, "pipelines"), sa.Column("changed_at", sa.BigInteger), schema=schema_of(dialect)
    )
