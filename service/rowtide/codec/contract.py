"""Decoders: bytes of messages in, columns of a row type out, faults for messages that do not fit.

The result of a message never depends on other messages (law 1). A decoder may
use any shortcut that obeys this.
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
    """The result of one call: a row for each of ``accepted`` (indexes of messages, ascending)."""

    columns: tuple[Column, ...]
    accepted: Indices
    faults: tuple[DecodeFault, ...]
    opcodes: NDArray[np.int8] | None = None
    """The opcode of each row for its table; None: all are INSERTs."""


class Decoder(Protocol):
    """Decodes the messages of one foreign stream."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages. None is a null value and rejected (TOMBSTONE).

        Every message is either accepted or has exactly one fault. Faults are in message order.
        """


@runtime_checkable
class ChangeDecoder(Protocol):
    """Decodes the messages of a topic that fills a table: they are changes, whose keys count too."""

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages as ``Decoder.decode``; a DELETE has the columns of the PRIMARY KEY only."""
