"""What decoders return, as tests compare it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowtide.codec.contract import Decoder
from rowtide.errors import Reason


def outcome(
    found: Decoder, values: Sequence[bytes | None]
) -> tuple[list[Any], list[tuple[int, Reason, str]]]:
    """Return the rows of messages, and the index, reason and text of each fault."""
    decoded = found.decode(values)
    rows = list(zip(*(column.to_list() for column in decoded.columns), strict=True))
    return rows, [(fault.index, fault.reason, fault.message) for fault in decoded.faults]
