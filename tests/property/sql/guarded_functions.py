"""Functions in Python that fail where their guards do not hold."""

from __future__ import annotations


def share(n: int, m: int | None) -> int | None:
    """Return n / m; NULL if m is NULL."""
    return None if m is None else n // m
