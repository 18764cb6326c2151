"""When a follower takes over, and the signs of life of a leader."""

from __future__ import annotations

import pytest

from rowtide.checkpoint.ledger import Pulse, resigned
from rowtide.errors import SupersededError
from rowtide.runtime.leadership.heart import Heart
from rowtide.runtime.leadership.watch import CALM, MOST_DOUBLINGS, LeaderWatch, Standby
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.errors import UnavailableError

STANDBY = Standby(takeover_s=4.0)


class Looks:
    """A follower that looks at the leader in its intervals."""

    def __init__(self) -> None:
        self.watch = LeaderWatch(STANDBY)
        self.now = 100.0
        self.watch.begin(self.now)

    def look(self, pulse: Pulse | None, seconds: float, every: float = STANDBY.look_s) -> bool:
        """Look for some time, and return whether it is time to take over."""
        end = self.now + seconds
        while self.now < end:
            self.now += every
            self.watch.see(pulse, self.now)
        return self.watch.is_leaderless()


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_a_pipeline_that_never_started_is_led_at_once(looks: Looks) -> None:
    assert looks.look(None, 0.1)


def test_a_leader_without_a_sign_of_life_is_taken_over_after_the_time_out(looks: Looks) -> None:
    assert not looks.look(Pulse(1, 5, 0), 4.0)
    assert looks.look(Pulse(1, 5, 0), 0.5)
    for sign in (Pulse(1, 6, 0), Pulse(1, 6, 1), Pulse(1, 6, 2)):
        assert not looks.look(sign, 3.9)


def test_time_in_which_the_follower_did_not_look_does_not_count(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 0), 0.5)
    # Suspended, or the database was down.
    assert not looks.look(Pulse(1, 5, 0), 600, every=600)
    assert not looks.look(Pulse(1, 5, 0), 2.5)
    assert looks.look(Pulse(1, 5, 0), 1.5)


def test_a_leader_that_has_ended_is_followed_at_once_and_nobody_waits_longer(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 3), 1)
    assert looks.look(Pulse(1, 5, resigned(1)), 0.5)
    assert not looks.look(Pulse(2, 5, 0), 0.5)
    assert (looks.watch.timeout_s, looks.watch.takeovers) == (4.0, 1)


def test_each_take_over_doubles_the_time_up_to_a_limit(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 0), 1)
    seen = []
    for epoch in range(2, 9):
        looks.look(Pulse(epoch, 5, 0), 1)
        seen.append(looks.watch.timeout_s)
    assert seen == [8.0, 16.0, 32.0, *[4.0 * 2**MOST_DOUBLINGS] * 4]
    assert looks.watch.takeovers == 7


def test_its_own_take_over_counts_and_is_not_counted_again(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 0), 1)
    looks.watch.take(2)
    assert (looks.watch.takeovers, looks.watch.timeout_s) == (1, 8.0)
    looks.look(Pulse(3, 9, 0), 1)
    assert (looks.watch.takeovers, looks.watch.timeout_s) == (2, 16.0)


def test_a_calm_leader_halves_the_time_again(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 0), 1)
    looks.look(Pulse(2, 5, 0), 1)
    beats = 0
    while looks.watch.timeout_s > STANDBY.takeover_s:
        beats += 1
        looks.look(Pulse(2, 5, beats), 1)
        assert beats < 2 * CALM * 8
    assert beats >= CALM * 8 - 1


def test_a_slow_leader_keeps_the_time_long(looks: Looks) -> None:
    looks.look(Pulse(1, 5, 0), 1)
    looks.look(Pulse(2, 5, 0), 1)
    for commits in range(6, 206):
        assert not looks.look(Pulse(2, commits, 0), 3)
    assert looks.watch.timeout_s == 8.0


def test_a_leader_beats_only_while_it_commits_nothing() -> None:
    clock = VirtualClock()
    ledger = InMemoryLedger(InMemoryDatabase(), "p", clock)
    commits, failures = [0], []
    heart = Heart(
        ledger.leadership, clock, last_commit=lambda: commits[0], failed=lambda: failures.append("database")
    )

    def beats() -> int:
        pulse = ledger.pulse()
        assert pulse is not None
        return pulse.beats

    epoch = ledger.claim("digest", "a").epoch
    clock.sleep(60)
    heart.beat_if_due()
    assert beats() == 0, "it does not lead"
    heart.lead(epoch, 1.0)
    for _ in range(100):
        commits[0] += 1
        clock.sleep(0.5)
        heart.beat_if_due()
    assert beats() == 0
    for _ in range(100):
        clock.sleep(0.1)
        heart.beat_if_due()
    assert 8 <= beats() <= 10
    before = beats()
    database = ledger._database

    def refuse(step: str) -> None:
        raise UnavailableError(step)

    database.before = refuse
    clock.sleep(1.5)
    heart.beat_if_due()
    database.before = lambda _step: None
    assert (failures, beats()) == (["database"], before)
    heart.rest()
    clock.sleep(5)
    heart.beat_if_due()
    assert beats() == before
    heart.lead(epoch, 1.0)
    heart.resign()
    pulse = ledger.pulse()
    assert pulse is not None
    assert pulse.has_resigned
    heart.lead(epoch, 1.0)
    ledger.claim("digest", "b")
    clock.sleep(5)
    with pytest.raises(SupersededError, match="taken by b"):
        heart.beat_if_due()
    heart.resign()
    pulse = ledger.pulse()
    assert pulse is not None
    assert not pulse.has_resigned
