"""Sends the messages of one outbox, in order, each once (docs/decisions/0010-the-outbox.md).

The sender remembers nothing that counts: the number of the last message sent is at the receiver, and the messages
after it are in the database. So it recovers from every failure in one way: it begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from rowtide.checkpoint.ledger import Ledger
from rowtide.checkpoint.outbox import Outbox, OutboxState
from rowtide.errors import FaultError, StatementError, SupersededError
from rowtide.runtime.crashpoints import CrashPoints
from rowtide.runtime.retry import Retry
from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    OutgoingMessage,
    SmallBatchSink,
)
from rowtide_connectors.file_sinks import GatheringSink

BATCH_MESSAGES = 10_000
BATCH_BYTES = 8 * 1024 * 1024
"""The most that is read and sent at once: bounds memory, and the time of a transaction of the receiver."""
REFRESH_S = 3_600.0
"""A number that is not stored again at the receiver for days may expire there: Kafka keeps it for 7."""

_log = structlog.get_logger("rowtide")


@dataclass(slots=True)
class Begun:
    """Whether a sender of this process has begun: then its credentials were right."""

    is_set: bool = False

    def is_missing(self) -> bool:
        """Return whether it has not begun yet."""
        return not self.is_set


@dataclass(frozen=True, slots=True)
class SenderParts:
    """What a sender works with.

    Args:
      relation: the foreign stream.
      epoch: the epoch of this process. A process that lost it sends nothing more.
      guarantee: of the sink.
      resends: whether to send the messages in doubt again if the receiver has lost the number.
      database: repeats what fails because the database is down.
      receiver: repeats what fails because the receiver is down.
    """

    relation: str
    epoch: int
    guarantee: Guarantee
    resends: bool
    ledger: Ledger
    outbox: Outbox
    sink: MessageSink
    database: Retry
    receiver: Retry
    crash_points: CrashPoints
    now_s: Callable[[], float]
    begun: Begun = field(default_factory=Begun)


class Sender:
    """Sends one outbox. One thread calls ``step``.

    ``first`` is the outbox as this process found it, before it committed anything.
    """

    def __init__(self, parts: SenderParts, first: OutboxState) -> None:
        self._parts = parts
        self._first = first
        self._sent: int | None = None
        """The number of the last message sent; None: begin first."""
        self._stored_at = 0.0
        self._hurries = False
        self._waits_since: float | None = float("-inf")
        """When the first message that waits was seen."""

    @property
    def sent(self) -> int:
        """The number of the last message that is known as sent."""
        return self._sent if self._sent is not None else (self._first.sent or 0)

    def step(self) -> bool:
        """Send the next messages; return whether there were any.

        Raises:
          SupersededError: another process took the pipeline.
          StatementError: the receiver no longer knows which messages were sent.
          TransientError, StoppedError: a dependency is down and is not waited for.
        """
        return self._parts.receiver.call(self._once)

    def _once(self) -> bool:
        """Do one step. After a failure of the receiver the next one begins again."""
        if self._sent is None:
            self._begin()
        assert self._sent is not None
        parts, sent = self._parts, self._sent
        if not self._is_due(sent):
            return False
        most = parts.sink.most_messages if isinstance(parts.sink, SmallBatchSink) else BATCH_MESSAGES
        size = parts.sink.most_bytes if isinstance(parts.sink, GatheringSink) else BATCH_BYTES
        messages = parts.database.call(lambda: parts.outbox.read(sent, most, size))
        if messages:
            if messages[0].number != sent + 1:
                raise FaultError(
                    f'outbox of "{parts.relation}" continues with number {messages[0].number} after {sent}'
                )
            self._send(messages, messages[-1].number)
        elif self._is_exact and parts.now_s() - self._stored_at >= REFRESH_S:
            self._send((), sent)
        return bool(messages)

    def hurry(self) -> None:
        """Let messages no longer wait for others: the process stops, or is at the end."""
        self._hurries = True

    def _is_due(self, sent: int) -> bool:
        """Return whether the messages after ``sent`` need not wait for others; those of an earlier process need not."""
        sink, now = self._parts.sink, self._parts.now_s()
        if self._hurries or not isinstance(sink, GatheringSink) or not sink.wait_s:
            return True
        state = self._parts.database.call(self._parts.outbox.state)
        pending = 0 if state is None else state.last - sent
        if not pending:
            self._waits_since = None
            return True
        if self._waits_since is None:
            self._waits_since = now
        if pending < sink.most_messages and now - self._waits_since < sink.wait_s:
            return False
        self._waits_since = None
        return True

    def _begin(self) -> None:
        """Take over from earlier senders, and find out what they have sent."""
        parts = self._parts
        record = parts.database.call(parts.ledger.read)
        if record is None or record.epoch != parts.epoch:
            taken = "dropped" if record is None else f"taken by {record.holder}"
            raise SupersededError(
                f'the pipeline was {taken}: this process must not send messages for "{parts.relation}"'
            )
        parts.crash_points.reach("outbox.before_begin")
        stored = parts.sink.begin()
        parts.crash_points.reach("outbox.after_begin")
        state = parts.database.call(parts.outbox.state)
        if state is None:
            raise FaultError(f'the outbox of "{parts.relation}" no longer exists in the checkpoint')
        sent = self._found(state, stored) if self._is_exact else (state.sent or 0)
        if sent != state.sent:
            self._settle(sent)
        if not self._parts.begun.is_set:
            _log.info("sends", relation=parts.relation, sent=sent, pending=state.last - sent)
        self._parts.begun.is_set, self._sent = True, sent

    def _found(self, state: OutboxState, stored: int | None) -> int:
        """Return the number of the last message sent; ``stored`` is the number at the receiver.

        Raises:
          StatementError: the number is lost while messages are in doubt, or the database is older than it.
        """
        parts, sent = self._parts, state.sent or 0
        if stored is not None:
            if stored > state.last:
                raise StatementError(
                    f'the receiver of "{parts.relation}" has messages up to number {stored}, but the database has '
                    f"made only {state.last}",
                    hint="The database was restored from a backup that is older than the messages. Drop the "
                    "pipeline's checkpoint and its tables, then start it again.",
                )
            self._stored_at = parts.now_s()
            return max(stored, sent)
        if (
            state.sent is not None
            and not self._parts.begun.is_set
            and self._first.last > sent
            and not parts.resends
        ):
            raise StatementError(
                f'the receiver of "{parts.relation}" no longer has the number of the last message sent, so it is '
                f"not known whether it has messages {sent + 1} to {self._first.last}",
                hint="The number expires with offsets.retention.minutes, and with the topic. Add lost_number "
                "'resend' to the OPTIONS of the stream to send these messages, perhaps for the second time.",
            )
        # Nothing was sent under this number: from now on, a missing number is a lost one.
        parts.sink.send((), sent)
        self._stored_at = parts.now_s()
        return sent

    def _send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Send messages, and then delete them; after a failure it is unknown whether they were sent."""
        parts, self._sent = self._parts, None
        parts.crash_points.reach("outbox.before_send")
        parts.sink.send(messages, number)
        parts.crash_points.reach("outbox.after_send")
        self._stored_at = parts.now_s()
        if messages:
            self._settle(number)
            parts.crash_points.reach("outbox.after_settle")
        self._sent = number

    def _settle(self, number: int) -> None:
        self._parts.database.call(lambda: self._parts.outbox.settle(number))

    @property
    def _is_exact(self) -> bool:
        return self._parts.guarantee is not Guarantee.AT_LEAST_ONCE

    def close(self) -> None:
        """Close the sink."""
        self._parts.sink.close()
