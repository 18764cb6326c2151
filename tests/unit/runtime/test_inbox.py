"""The threaded inbox: bounded, in log order, and never silent about a failure."""

import random
import threading
import time

import numpy as np
import pytest

from rowtide.clock import SystemClock
from rowtide.runtime.ingest.inbox import ThreadedInbox
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.retry import Patience, Retry
from rowtide_connectors.api import Messages
from rowtide_connectors.errors import GoneError
from support.waiting import wait_until


class ScriptedIntake:
    """Gives ten messages a poll, in order, until told otherwise."""

    def __init__(self, relation: str = "R", fail_at: int | None = None) -> None:
        self.channel = self
        self.relation = relation
        self.polls = 0
        self.closed = threading.Event()
        self.paused: frozenset[int] = frozenset()
        self._fail_at = fail_at

    def poll(self, timeout_s: float, paused: frozenset[int]) -> list[Delivery]:
        self.paused = paused
        if self.polls == self._fail_at:
            raise GoneError("the position is gone")
        start = 10 * self.polls
        self.polls += 1
        offsets = np.arange(start, start + 10, dtype=np.int64)
        messages = Messages("t", 0, offsets, offsets, [None] * 10, [b"x" * 100] * 10, start + 10)
        return [Delivery(self.relation, 0, (), (), messages, 1_000)]

    def close(self) -> None:
        self.closed.set()


def inbox_of(*intakes: ScriptedIntake, **limits: int) -> ThreadedInbox:
    retry = Retry(
        "broker",
        clock=SystemClock(),
        rng=random.Random(1),
        stopping=lambda: False,
        patience=Patience(wait=True),
    )
    return ThreadedInbox([(each, retry) for each in intakes], **limits)  # type: ignore[misc]


@pytest.mark.parametrize("limits", [{"max_messages": 35}, {"max_bytes": 3_500}])
def test_a_stream_that_is_not_taken_stops_being_read(limits: dict[str, int]) -> None:
    intake = ScriptedIntake()
    inbox = inbox_of(intake, **limits)
    try:
        wait_until(lambda: intake.polls == 4)
        time.sleep(0.05)
        assert intake.polls == 4
        taken = inbox.take(1.0)
        assert [delivery.next_offset for delivery in taken] == [10, 20, 30, 40]
        wait_until(lambda: intake.polls == 8)
    finally:
        inbox.close()


def test_one_full_stream_does_not_stop_another() -> None:
    full, other = ScriptedIntake("FULL"), ScriptedIntake("OTHER")
    inbox = inbox_of(full, other, max_messages=10)
    try:
        wait_until(lambda: full.polls == 1 and other.polls == 1)
        seen: set[str] = set()

        def both_come() -> bool:
            seen.update(each.relation for each in inbox.take(0.1))
            return len(seen) == 2

        wait_until(both_come)
    finally:
        inbox.close()


def test_a_failure_comes_after_everything_that_came_before_it() -> None:
    inbox = inbox_of(ScriptedIntake(fail_at=3))
    taken: list[Delivery] = []
    with pytest.raises(GoneError):
        while True:
            taken += inbox.take(1.0)
    assert [delivery.next_offset for delivery in taken] == [10, 20, 30]
    inbox.close()


def test_what_is_paused_reaches_the_reader_and_closing_closes_it() -> None:
    intake = ScriptedIntake()
    inbox = inbox_of(intake, max_messages=10)
    inbox.pause({"R": frozenset({0})})
    wait_until(lambda: bool(inbox.take(0.1)) and intake.paused == {0})
    inbox.close()
    assert intake.closed.is_set()


def test_an_empty_inbox_gives_nothing_after_its_patience() -> None:
    inbox = inbox_of()
    assert inbox.take(0.01) == []
    inbox.close()
