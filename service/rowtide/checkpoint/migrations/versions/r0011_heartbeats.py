"""Pipelines have the heartbeats of the process that leads."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import add

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; NULL: the process has no standby."""
    add("pipelines", sa.Column("beats", sa.BigInteger))
