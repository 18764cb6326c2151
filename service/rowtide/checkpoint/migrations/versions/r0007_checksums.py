"""Snapshots have a checksum."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import TEXT, add

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; existing snapshots have no checksum."""
    add("snapshots", sa.Column("checksum", TEXT))
