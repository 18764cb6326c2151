"""The session that holds the record of a pipeline is ended if it is silent, and never if it is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import Writer
from rowtide.runtime.leadership.release import LONGEST_S, RecordRelease
from rowtide.runtime.leadership.watch import LEAST_SILENCE_S, USUAL, Standby
from rowtide.runtime.retry import LONGEST_DELAY_S
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.errors import ConnectorError, DeniedError, UnavailableError
from support.runtime import World, fill

SILENT = Writer(7, "11", 3.0)
SILENCE_S = 2.0


class _Asked(InMemoryLedger):
    answer: Callable[[], Writer | None]
    end: Callable[[Writer], None]

    def writer(self) -> Writer | None:
        return self.answer()

    def end_writer(self, writer: Writer) -> None:
        self.end(writer)


@dataclass
class Server:
    """A server of which a test says what it answers."""

    answer: Callable[[], Writer | None]
    ended: list[Writer] = field(default_factory=list)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def release(self, end: Callable[[Writer], None] | None = None) -> RecordRelease:
        asked = _Asked(InMemoryDatabase(), "p", self.clock)
        asked.answer, asked.end = self.answer, end or self.ended.append
        return RecordRelease(asked, "p", SILENCE_S)


@pytest.mark.parametrize(
    ("writer", "waits", "ends"),
    [
        (None, False, False),
        (SILENT, False, True),
        (replace(SILENT, silent_s=SILENCE_S), False, True),
        (replace(SILENT, silent_s=1.9), True, False),
        (replace(SILENT, silent_s=None), True, False),
        (replace(SILENT, grant="GRANT a TO b"), False, False),
    ],
)
def test_only_a_session_that_is_silent_for_long_enough_is_ended(
    writer: Writer | None, *, waits: bool, ends: bool
) -> None:
    server = Server(lambda: writer)
    assert server.release().attempt() == (writer if waits else None)
    assert server.ended == ([writer] if ends else [])


@pytest.mark.parametrize(
    "error", [UnavailableError("down"), DeniedError("no"), ConnectorError("no pg_locks")]
)
def test_what_the_server_does_not_answer_is_said_once_and_left_to_the_claim(error: ConnectorError) -> None:
    def fails(*_: object) -> None:
        raise error

    for release in (Server(fails).release(), Server(lambda: SILENT).release(fails)):
        with capture_logs() as logs:
            assert [release.attempt() for _ in range(3)] == [None] * 3
        assert [(each["event"], each["reason"]) for each in logs] == [("session_not_ended", error.message)]


def test_a_transaction_that_goes_on_is_waited_for_and_the_next_one_is_not() -> None:
    server = Server(lambda: replace(SILENT, silent_s=None, transaction=str(server.clock.seconds >= 4)))
    server.release().wait(server.clock, lambda: False)
    assert 4 <= server.clock.seconds < 4.5
    server.release().wait(server.clock, lambda: False)
    assert LONGEST_S <= server.clock.seconds - 4 < LONGEST_S + 1
    stopped = server.clock.seconds
    server.release().wait(server.clock, lambda: server.clock.seconds > stopped + 1)
    assert server.clock.seconds < stopped + 1.5


def test_a_session_has_half_the_time_of_a_take_over_and_never_less_than_a_healthy_one_needs() -> None:
    assert Standby(6.0).silence_s == 3.0
    assert Standby(0.2).silence_s == LEAST_SILENCE_S


@pytest.mark.parametrize("works_s", [0, 5, 60])
def test_a_start_ends_the_transaction_of_a_process_that_no_longer_speaks(works_s: int) -> None:
    world = World(InMemoryTopic("readings", 2))
    fill(world.topic, random.Random(1), 60)
    began = world.clock.seconds

    def writer() -> Writer:
        passed = world.clock.seconds - began
        return Writer(7, "11", passed - works_s if passed > works_s else None)

    world.database.writer = writer
    with capture_logs() as logs:
        Service(world.context()).run(until_end=True)
    waited_s = world.clock.seconds - began
    assert works_s + USUAL.silence_s <= waited_s < works_s + USUAL.silence_s + 2 * LONGEST_DELAY_S
    assert [each["session"] for each in logs if each["event"] == "session_ended"] == [7]


def test_a_start_waits_for_a_session_that_it_may_not_end_as_for_any_lock() -> None:
    world = World(InMemoryTopic("readings", 2))
    fill(world.topic, random.Random(1), 60)
    other = Writer(7, "11", None, "GRANT a TO b")
    world.database.writer = lambda: other if world.clock.seconds < 100 else None
    with capture_logs() as logs:
        Service(world.context()).run(until_end=True)
    assert world.clock.seconds >= 100
    (said,) = [each for each in logs if each["event"] == "session_not_ended"]
    assert said["hint"] == "Let all processes use one role, or: GRANT a TO b."
