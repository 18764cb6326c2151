"""Comparison of two values for MIN or MAX."""

# ruff: noqa: PLR0124 (only NaN differs from itself, and this also compiles for int64)

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True, forceinline=True)
def is_better(value: Any, held: Any, greatest: bool) -> bool:
    """Return whether ``value`` replaces ``held``: every number replaces NaN, and NaN replaces nothing."""
    if greatest:
        return bool(value > held or (held != held and value == value))
    return bool(value < held or (held != held and value == value))
