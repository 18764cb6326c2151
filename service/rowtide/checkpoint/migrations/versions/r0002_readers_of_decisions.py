"""Decisions may be for one reader of a partition: a partition that joins gets the bound of each."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import TEXT, add

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; earlier decisions were for all readers."""
    add("decisions", sa.Column("reader", TEXT))
