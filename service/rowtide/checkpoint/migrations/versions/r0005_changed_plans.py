"""Pipelines have the commit with which another plan took over."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import add

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; no plan was changed before."""
    add("pipelines", sa.Column("changed_at", sa.BigInteger))
