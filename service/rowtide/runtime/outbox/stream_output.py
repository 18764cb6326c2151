"""The output of one commit to a foreign stream: its messages, and faults for rows that it cannot take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.checkpoint.outbox import NewMessage
from rowtide.codec.encode.message import MessageEncoder
from rowtide.errors import FaultError, Reason, RejectedRowError
from rowtide.operators.contract import Account, Fault
from rowtide.plan.plan import ForeignStream
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runtime.outbox.options import outbox_options

FIRST_TIMESTAMP_MS = 1
"""A message's timestamp is its row's rowtime, and clients of Kafka take 0 for the present time."""


@dataclass(frozen=True, slots=True)
class Sends:
    """The messages of one commit for one foreign stream, in order."""

    relation: str
    messages: Sequence[NewMessage]


class StreamOutput:
    """Gathers the messages of one foreign stream between two commits.

    ``account`` counts its rows (law 4): input rows are done or rejected.

    Raises:
      StatementError: the format cannot be written, or an option is wrong.
    """

    def __init__(self, stream: ForeignStream) -> None:
        self.account = Account()
        self._stream = stream
        self._encoder = MessageEncoder(stream)
        self._max_message_bytes = outbox_options(stream).max_message_bytes
        self._messages: list[NewMessage] = []

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, trays: Sequence[Tray]) -> list[Fault]:
        """Take rows in order; return the faults of those that cannot be written."""
        faults: list[Fault] = []
        for tray in trays:
            if (tray.opcode != Opcode.INSERT).any():
                raise FaultError(f'foreign stream "{self._stream.name}" was given a DELETE')
            self.account.rows_in += len(tray)
            for row in tray.rows():
                try:
                    self._messages.append(self._message(row))
                except RejectedRowError as error:
                    faults.append(self._rejected(row, error))
        self.account.rejected += len(faults)
        self.account.done += sum(map(len, trays)) - len(faults)
        return faults

    def take(self) -> Sends | None:
        """Return the gathered messages and start again; None if there are none."""
        if not self._messages:
            return None
        taken, self._messages = self._messages, []
        return Sends(self._stream.name, taken)

    def _message(self, row: TimedRow) -> NewMessage:
        if row.rowtime < FIRST_TIMESTAMP_MS:
            raise RejectedRowError(
                Reason.CONSTRAINT,
                "its rowtime is not after 1970-01-01 00:00:00, as a message's timestamp has to be",
            )
        message = self._encoder.encode(row.row)
        if message.size > self._max_message_bytes:
            raise RejectedRowError(
                Reason.CONSTRAINT,
                f"its message has {message.size} bytes, and max_message_bytes is {self._max_message_bytes}",
            )
        return NewMessage(message.value, row.rowtime, message.key, message.headers, message.partition)

    def _rejected(self, row: TimedRow, error: RejectedRowError) -> Fault:
        return Fault(
            self._stream.name,
            error.reason,
            error.message,
            row.rowtime,
            row.origin,
            row.counter,
            row.row,
            names=self._stream.row_type.names,
        )
