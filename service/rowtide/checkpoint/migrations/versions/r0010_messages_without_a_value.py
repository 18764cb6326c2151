"""Messages for topics may have no value: they delete the row of their key."""

from __future__ import annotations

from rowtide.checkpoint.migrations.changes import BYTES, make_nullable

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Let values be NULL."""
    make_nullable("outbox", "message_value", BYTES)
