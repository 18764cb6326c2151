"""Lengths without a limit."""

FOR_EVER_MS = 400_000_000_000_000
"""Longer than from the first TIMESTAMP to the last: how long what RETENTION 'UNBOUNDED' keeps is kept."""
