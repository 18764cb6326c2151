"""Functions in Python that property tests call."""

from __future__ import annotations


def last(*args: object) -> object:
    """Return the last argument, and for some arguments raise an exception or return no value of any type."""
    size = len(repr(args))
    if size % 5 == 0:
        raise ValueError(f"{size} characters")
    if size % 7 == 0:
        return object()
    return None if size % 11 == 0 else args[-1]
