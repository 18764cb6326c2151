"""Pipelines have the session that has written their record last."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import add

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; NULL: the server finds the session by itself, or has none."""
    add("pipelines", sa.Column("session", sa.BigInteger))
