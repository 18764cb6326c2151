"""The output of one commit to a foreign stream: its messages, and faults for rows that it cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from rowtide.checkpoint.outbox import NewMessage
from rowtide.codec.message import Encoded, MessageEncoder
from rowtide.errors import FaultError, Reason, RejectedRowError
from rowtide.operators.contract import Account, Fault
from rowtide.plan.plan import ForeignStream
from rowtide.plan.upserts import takes_changes, upsert_key
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.outbox_options import outbox_options

FIRST_TIMESTAMP_MS = 1
"""A message's timestamp is its row's rowtime, and clients of Kafka take 0 for the present time."""


@dataclass(frozen=True, slots=True)
class Sends:
    """The messages of one commit for one foreign stream, in order."""

    relation: str
    messages: Sequence[NewMessage]


class StreamOutput:
    """Gathers the messages of one foreign stream between two commits.

    ``account`` counts its rows (law 4): input rows are done or rejected. ``sends`` False: rows are
    counted, and not encoded.

    Raises:
      StatementError: the format cannot be written, or an option is wrong.
    """

    def __init__(self, stream: ForeignStream, *, sends: bool = True) -> None:
        self.account = Account()
        self._stream = stream
        self._sends = sends
        self._encoder = MessageEncoder(stream)
        self._max_message_bytes = outbox_options(stream).max_message_bytes
        self._key = upsert_key(stream.row_type, stream.options) if takes_changes(stream.options) else ()
        self._messages: list[NewMessage] = []

    def __len__(self) -> int:
        return len(self._messages)

    def prepare(self) -> None:
        """Fetch what encoding needs from a schema registry; raises as ``MessageEncoder.prepare``."""
        if self._sends:
            self._encoder.prepare()

    def add(self, trays: Sequence[Tray]) -> list[Fault]:
        """Take rows in order; return the faults of those that cannot be written.

        A DELETE that cannot be written is one of such a row, which has had its fault and was never written.
        """
        faults: list[Fault] = []
        for tray in trays:
            if not self._key and (tray.opcode != Opcode.INSERT).any():
                raise FaultError(f'foreign stream "{self._stream.name}" was given a DELETE')
            self.account.rows_in += len(tray)
        rows = (row for tray in trays for row in tray.rows()) if self._sends else iter(())
        if self._key:
            for _, together in groupby(rows, key=lambda row: (row.rowtime, row.origin, row.counter)):
                if self._encoder.writes_changes:
                    self._messages += self._envelopes(together, faults)
                else:
                    self._messages += self._changes(together, faults)
        else:
            for row in rows:
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

    def _changes(self, rows: Iterable[TimedRow], faults: list[Fault]) -> Iterable[NewMessage]:
        """Return the messages of the rowops that one row has caused: the last one of each key.

        So a row that changes is one message with its new values, and not two. A row that cannot be written
        counts as not there.
        """
        last: dict[tuple[object, ...], NewMessage] = {}
        for row in rows:
            try:
                key = self._key_of(row)
                message = self._message(row)
            except RejectedRowError as error:
                if row.opcode == Opcode.INSERT:
                    faults.append(self._rejected(row, error))
                continue
            last.pop(key, None)
            last[key] = message
        return last.values()

    def _envelopes(self, rows: Iterable[TimedRow], faults: list[Fault]) -> Iterable[NewMessage]:
        """Return the messages of the rowops that one row has caused: of each key, from its first row to its last.

        A row that cannot be written counts as not there, so it was not there either when it is deleted.
        """
        first: dict[tuple[object, ...], tuple[object, ...] | None] = {}
        last: dict[tuple[object, ...], list[NewMessage]] = {}
        for row in rows:
            is_delete = row.opcode == Opcode.DELETE
            try:
                key = self._key_of(row)
                rowtime = self._stamp(row)
                before = first.setdefault(key, row.row if is_delete else None)
                try:
                    if is_delete:
                        made = self._encoder.encode_change(before or row.row, None, rowtime)
                    else:
                        made = self._encoder.encode_change(before, row.row, rowtime)
                    messages = [self._new(each, rowtime) for each in made]
                except RejectedRowError:
                    if not is_delete:
                        raise
                    first[key] = None
                    continue
            except RejectedRowError as error:
                if not is_delete:
                    faults.append(self._rejected(row, error))
                continue
            last.pop(key, None)
            last[key] = messages
        return chain.from_iterable(last.values())

    def _key_of(self, row: TimedRow) -> tuple[object, ...]:
        key = tuple(row.row[at] for at in self._key)
        if None in key:
            name = self._stream.row_type[self._key[key.index(None)]].name
            raise RejectedRowError(Reason.NULL_KEY, f'column "{name}" is of the key and NULL')
        return key

    def _stamp(self, row: TimedRow) -> int:
        """Return the timestamp of a row's message."""
        rowtime = row.rowtime
        if self._key and rowtime == EARLIEST:
            rowtime = FIRST_TIMESTAMP_MS  # A row of an INSERT statement in the pipeline's text.
        if rowtime < FIRST_TIMESTAMP_MS:
            raise RejectedRowError(
                Reason.CONSTRAINT,
                "its rowtime is not after 1970-01-01 00:00:00, as a message's timestamp has to be",
            )
        return rowtime

    def _message(self, row: TimedRow) -> NewMessage:
        rowtime = self._stamp(row)
        return self._new(self._encoder.encode(row.row, deletes=row.opcode == Opcode.DELETE), rowtime)

    def _new(self, message: Encoded, rowtime: int) -> NewMessage:
        if message.size > self._max_message_bytes:
            raise RejectedRowError(
                Reason.CONSTRAINT,
                f"its message has {message.size} bytes, and max_message_bytes is {self._max_message_bytes}",
            )
        return NewMessage(message.value, rowtime, message.key, message.headers, message.partition)

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
