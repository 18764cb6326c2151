"""What a decoder is: bytes of messages in, columns of a row type out, faults for what does not fit.

Whether and how one message decodes never depends on the messages beside it
(law 1): a decoder may take any short cut that keeps to this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rowtide.errors import Reason
from rowtide.rows.column import Column, Indices


@dataclass(frozen=True, slots=True)
class DecodeFault:
    """The message at ``index`` of those given was rejected."""

    index: int
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """What one call gave: a row for each of ``accepted`` (indices of the messages, ascending)."""

    columns: tuple[Column, ...]
    accepted: Indices
    faults: tuple[DecodeFault, ...]
    opcodes: NDArray[np.int8] | None = None
    """What each row does to the table that it is of; None: all are INSERTs."""


class Decoder(Protocol):
    """Decodes the messages of one foreign stream."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; None is a null value and rejected (TOMBSTONE).

        Every message is either accepted or has exactly one fault; faults come in message order.
        """


@runtime_checkable
class ChangeDecoder(Protocol):
    """Decodes the messages of a topic that fills a table: they are changes, whose keys count too."""

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages as ``Decoder.decode``; a DELETE has the columns of the PRIMARY KEY only."""
