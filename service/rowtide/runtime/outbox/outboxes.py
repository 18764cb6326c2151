"""The outboxes of a running pipeline: a sender for each foreign stream that pumps write to.

Each sender has a thread of its own, so that a receiver that is down does not stop the pipeline. Its messages wait
in the database then, not in memory, up to the ``max_pending`` of the stream: after that the pipeline stops
reading until some are sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from rowtide.clock import Clock
from rowtide.runtime.outbox.sender import Sender
from rowtide.runtime.retry import StoppedError
from rowtide.runtime.state.pipeline_state import CommitBatch

LOOK_AGAIN_S = 30.0
"""How often an idle sender looks at its outbox without being woken."""
LAST_S = 3.0
"""How long a stop waits for messages that can still be sent; the next start sends the others."""
_NAP_S = 0.05

_log = structlog.get_logger("rowtide")


@dataclass(slots=True)
class _Line:
    """One sender, with the number of the last message that was committed."""

    sender: Sender
    last: int
    max_pending: int
    sent: int = 0
    has_ended: bool = False
    """Whether its thread has ended."""

    @property
    def pending(self) -> int:
        return max(self.last - self.sent, 0)


class Outboxes:
    """All senders of a pipeline. The main thread owns it.

    Args:
      senders: by foreign stream, each with the number of the last committed message and its ``max_pending``.
      clock: for waiting.
      on_sent: called with a stream, the messages sent since the last call, and the number of those that wait.
      threads: False: ``work`` sends in the caller's thread, for simulations.
    """

    def __init__(
        self,
        senders: Mapping[str, tuple[Sender, int, int]],
        clock: Clock,
        on_sent: Callable[[str, int, int], None],
        *,
        threads: bool,
    ) -> None:
        self._lines = {
            relation: _Line(sender, last, most, sender.sent)
            for relation, (sender, last, most) in senders.items()
        }
        self._clock = clock
        self._on_sent = on_sent
        self._is_threaded = threads
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._closing = False
        self._hurries = False
        self._is_said: set[str] = set()
        self._threads = [
            threading.Thread(target=self._run, args=(relation,), name=f"outbox {relation}", daemon=True)
            for relation in self._lines
            if threads
        ]
        for relation in self._lines:
            self._tell(relation, 0)
        for thread in self._threads:
            thread.start()

    def committed(self, batch: CommitBatch) -> None:
        """Note the messages of a commit, and wake their senders."""
        with self._changed:
            for each in batch.sends:
                self._lines[each.relation].last += len(each.messages)
            self._changed.notify_all()
        for each in batch.sends:
            self._tell(each.relation, 0)

    def work(self) -> None:
        """Raise what a sender raised; without threads, first send everything that waits.

        Raises:
          SupersededError, StatementError, TransientError, StoppedError, FaultError.
        """
        if not self._is_threaded:
            for relation in self._lines:
                while self._step(relation):
                    pass
        if self._failure is not None:
            raise self._failure

    def are_full(self) -> bool:
        """Return whether so many messages wait that the pipeline has to stop reading; says so once."""
        full = False
        for relation, line in self._lines.items():
            if line.pending < line.max_pending:
                if relation in self._is_said and line.pending < line.max_pending // 2:
                    self._is_said.discard(relation)
                continue
            full = True
            if relation not in self._is_said:
                self._is_said.add(relation)
                _log.warning(
                    "outbox_full",
                    relation=relation,
                    pending=line.pending,
                    max_pending=line.max_pending,
                    hint="The pipeline reads no more until messages are sent. Is the broker up, does it take them?",
                )
        return full

    def finish(self, *, limit_s: float | None = LAST_S, stopping: Callable[[], bool] = lambda: False) -> None:
        """Wait until everything is sent: at most ``limit_s``, and until asked to stop.

        Raises:
          As ``work``.
        """
        until = None if limit_s is None else self._clock.monotonic() + limit_s
        with self._changed:
            self._hurries = True
            for line in self._lines.values():
                line.sender.hurry()
            self._changed.notify_all()
        self.work()
        while any(line.pending and not line.has_ended for line in self._lines.values()) and not stopping():
            if until is not None and self._clock.monotonic() >= until:
                return
            self._clock.sleep(_NAP_S)
            self.work()

    def close(self) -> None:
        """Stop the threads; messages that are not sent wait for the next start."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(LAST_S)
        if not self._is_threaded:
            for line in self._lines.values():
                line.sender.close()

    def _run(self, relation: str) -> None:
        """Send until closed; a thread's body."""
        line = self._lines[relation]
        try:
            while not self._closing:
                seen = line.last
                if not self._step(relation):
                    with self._changed:
                        self._changed.wait_for(partial(self._has_more, line, seen), LOOK_AGAIN_S)
        except StoppedError:
            _log.info("messages_wait_for_the_next_start", relation=relation, pending=line.pending)
        except BaseException as error:  # noqa: BLE001 - work() raises it again
            self._failure = error
        finally:
            line.has_ended = True
            line.sender.close()

    def _has_more(self, line: _Line, seen: int) -> bool:
        return self._closing or line.last > seen or (self._hurries and line.pending > 0)

    def _step(self, relation: str) -> bool:
        line = self._lines[relation]
        any_sent = line.sender.step()
        sent = line.sender.sent
        with self._changed:
            new, line.sent = max(sent - line.sent, 0), max(line.sent, sent)
        if new:
            self._tell(relation, new)
        return any_sent

    def _tell(self, relation: str, sent: int) -> None:
        self._on_sent(relation, sent, self._lines[relation].pending)
