"""How much is written at once."""

from __future__ import annotations

WRITE_BYTES = 32 << 20
"""About the most bytes of texts and binary values in one statement; a larger row is a statement of its own.

Larger statements are not faster. PostgreSQL takes less than 1 GiB at once, in which a character may have four bytes,
and each of them a backslash before it.
"""
