"""Decides when a follower takes over: after a declared time without a sign of life of the leader.

The decision may be wrong: a leader may be slow. Then it is fenced, and nothing else happens. But replicas of a
slow database must not take the pipeline from each other again and again, so each take-over doubles the time
that a follower waits. It is halved when a leader has led for long and its signs of life came fast enough for that.

Nothing here reads a clock: times are seconds on the caller's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.checkpoint.ledger import Pulse

LOOKS_A_TIMEOUT = 8
"""Looks at the leader within a time-out, and at most this share of it passes from one to the next."""
BEATS_A_TIMEOUT = 4
"""Heartbeats of an idle leader within a time-out: three may be lost."""
LONGEST_LOOK_S = 1.0
MOST_DOUBLINGS = 4
"""The longest time that a follower waits is 16 times the declared one."""
CALM = 10
"""A leader that has led for so many times the current waiting time may halve it."""
LEAST_SILENCE_S = 1.0
"""A healthy process sends the next statement of a transaction within this time; it waits so long for a broker there."""
IDLE_TRANSACTION_S = 10
"""Least time after which the database ends the transaction of a frozen process, where it can do so: a leader that is
suspended within its commit holds the lock of the fence. A healthy one sends the next statement within a second."""


@dataclass(frozen=True, slots=True)
class Standby:
    """How a process leads, and a replica follows it.

    ``takeover_s``: the time without a sign of life after which a replica takes over.
    """

    takeover_s: float

    @property
    def look_s(self) -> float:
        """Return the seconds between two looks at the leader."""
        return min(self.takeover_s / LOOKS_A_TIMEOUT, LONGEST_LOOK_S)

    @property
    def beat_s(self) -> float:
        """Return the seconds between two signs of life of an idle leader."""
        return self.takeover_s / BEATS_A_TIMEOUT

    @property
    def silence_s(self) -> float:
        """Return the least time without a statement after which a transaction is ended that a claim waits for."""
        return max(self.takeover_s / 2, LEAST_SILENCE_S)

    @property
    def idle_transaction_s(self) -> int:
        """Return the seconds after which the database ends an idle transaction of a replica."""
        return max(IDLE_TRANSACTION_S, round(self.takeover_s))


USUAL = Standby(takeover_s=5.0)
"""Those of the default settings."""


class LeaderWatch:
    """The signs of life that one replica has seen; outlives the times in which it leads."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby
        self._last: Pulse | None = None
        self._at = 0.0
        self._silent_s = 0.0
        self._led_s = self._widest_s = 0.0
        self._doublings = 0
        self.takeovers = 0
        """The changes of the epoch that this replica has seen."""

    @property
    def timeout_s(self) -> float:
        """Return the seconds without a sign of life after which the replica takes over now."""
        return float(self._standby.takeover_s * 2**self._doublings)

    @property
    def last(self) -> Pulse | None:
        """Return the sign of life that was seen last; None: the pipeline has never started."""
        return self._last

    def begin(self, now: float) -> None:
        """Begin to follow: a leader has the whole time-out from now on."""
        self._at, self._silent_s = now, 0.0

    def see(self, pulse: Pulse | None, now: float) -> None:
        """Note what the checkpoint says at ``now``.

        A long time since the last look counts as two intervals: this replica was suspended, or the database was
        down, and then the leader had no chance, either.
        """
        passed = min(now - self._at, 2 * self._standby.look_s)
        self._at = now
        if pulse == self._last:
            self._silent_s += passed
            return
        before, self._last = self._last, pulse
        silent_s, self._silent_s = self._silent_s + passed, 0.0
        if pulse is None or before is None:
            return
        if pulse.epoch == before.epoch:
            self._grow_calm(silent_s)
            return
        self._led_s = self._widest_s = 0.0
        # A database that has lost commits may have lost a take-over, too.
        taken = max(0, pulse.epoch - before.epoch)
        self.takeovers += taken
        if not before.has_resigned:
            self._doublings = min(self._doublings + taken, MOST_DOUBLINGS)

    def take(self, epoch: int) -> None:
        """Note that this replica has taken over."""
        self.see(Pulse(epoch, 0 if self._last is None else self._last.commits, 0), self._at)

    def is_leaderless(self) -> bool:
        """Return whether it is time to take over."""
        if self._last is None:
            return True
        return self._last.has_resigned or self._silent_s >= self.timeout_s

    def _grow_calm(self, silent_s: float) -> None:
        """Note a sign of life of the same leader, after ``silent_s``."""
        self._led_s += silent_s
        self._widest_s = max(self._widest_s, silent_s)
        if self._doublings and self._led_s >= CALM * self.timeout_s:
            # Twice as fast as the halved time needs it.
            if self._widest_s <= self.timeout_s / 4:
                self._doublings -= 1
            self._led_s = self._widest_s = 0.0
