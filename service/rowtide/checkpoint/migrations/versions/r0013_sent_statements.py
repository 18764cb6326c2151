"""Statements are sent to a running pipeline, and their changes are logged."""

from __future__ import annotations

import sqlalchemy as sa

from rowtide.checkpoint.migrations.changes import BYTES, NUMBER, PIPELINE, RELATION, TEXT, TIME, create, index

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Create the tables."""
    create(
        "statements",
        sa.Column("statement_id", NUMBER, sa.Identity(always=True), primary_key=True),
        sa.Column("pipeline", PIPELINE, nullable=False),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("sent_at", TIME, nullable=False),
        sa.Column("settled_at", TIME),
        sa.Column("commits", sa.BigInteger),
        sa.Column("number", sa.BigInteger),
        sa.Column("rowtime", sa.BigInteger),
        sa.Column("changed_rows", sa.BigInteger),
        sa.Column("did", TEXT),
        sa.Column("error", TEXT),
    )
    index("rowtide_statements_by_number", "statements", ["pipeline", "number"])
    create(
        "statement_changes",
        sa.Column("statement_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("relation", RELATION, primary_key=True),
        sa.Column("content", BYTES, nullable=False),
    )
