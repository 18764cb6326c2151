"""The names of the checkpoint's tables, which connectors of databases keep out of a user's way."""

from __future__ import annotations

CHECKPOINT_SCHEMA = "rowtide"
"""The schema of the checkpoint; in a database without schemas, it and ``_`` prefix the names of its
tables."""
CHECKPOINT_TABLES = frozenset(
    {
        "version",
        "pipelines",
        "positions",
        "errors",
        "decisions",
        "accounts",
        "snapshots",
        "snapshot_chunks",
        "polls",
        "polled_rows",
        "polled_changes",
        "outboxes",
        "outbox",
        "listed_files",
        "statements",
        "statement_changes",
        "state_parts",
    }
)
"""The checkpoint's tables, which a foreign table cannot name."""
