"""Encoders: a row in, the value of a message out.

A decoder of the same declaration reads the row back. The message of a row never depends on other rows (law 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from rowtide.errors import Reason, RejectedRowError

ToMessage = Callable[[object], object]
"""Takes a value in row form, not NULL; returns it as the format writes it."""


class Encoder(Protocol):
    """Encodes the rows of one foreign stream."""

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message.

        Raises:
          RejectedRowError: CONSTRAINT, the format cannot carry the row.
        """


def refuse(message: str) -> NoReturn:
    """Reject a row that cannot be written.

    Raises:
      RejectedRowError: CONSTRAINT.
    """
    raise RejectedRowError(Reason.CONSTRAINT, message)
