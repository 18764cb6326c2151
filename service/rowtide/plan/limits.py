"""Unlimited lengths of time."""

FOR_EVER_MS = 400_000_000_000_000
"""RETENTION 'UNBOUNDED' in ms: longer than from the first TIMESTAMP to the last."""
