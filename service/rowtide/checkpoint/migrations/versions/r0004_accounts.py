"""Accounts of relations are kept, so that they count from the pipeline's beginning."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import PART, PIPELINE, RELATION, TIME, create

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; earlier counts are unknown."""
    counted = ("rows_in", "done", "filtered", "late", "rejected", "held", "rows_out")
    create(
        "accounts",
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("part", PART, nullable=False),
        sa.Column("relation", RELATION, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in counted),
        sa.Column("committed_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "part", "relation"),
    )
