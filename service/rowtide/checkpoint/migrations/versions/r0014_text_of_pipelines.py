"""Pipelines have the text of the file that runs."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import TEXT, add

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; NULL: the pipeline has not been started since."""
    add("pipelines", sa.Column("content", TEXT))
