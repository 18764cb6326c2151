"""Encoders: a row in, the value of a message out.

A decoder of the same declaration reads the row back. The message of a row never depends on other rows (law 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, runtime_checkable

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


@runtime_checkable
class ChangeEncoder(Protocol):
    """Encodes the changes of a table: messages have the row before and the row after."""

    def encode_change(
        self, before: Sequence[object] | None, after: Sequence[object] | None, rowtime: int
    ) -> bytes:
        """Return the value of a change's message; one of the rows is not None.

        Raises:
          RejectedRowError: CONSTRAINT, the format cannot carry one of the rows.
        """


@runtime_checkable
class RegisteredEncoder(Protocol):
    """Encodes with a schema of a registry, which it asks before the first row."""

    def check(self) -> None:
        """Check that the registry has or takes the schema, and that the schema fits. Changes nothing.

        Raises:
          StatementError: the schema does not fit the columns.
          GoneError, MismatchError: the registry does not have the schema, or does not take it.
          UnavailableError: the registry does not answer, or denies access (DeniedError).
        """

    def prepare(self) -> None:
        """Fetch the schema, or register it; a second call does nothing. Raises as ``check``."""


def refuse(message: str) -> NoReturn:
    """Reject a row that cannot be written.

    Raises:
      RejectedRowError: CONSTRAINT.
    """
    raise RejectedRowError(Reason.CONSTRAINT, message)
