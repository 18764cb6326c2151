"""Replicas of one pipeline on virtual time: threads of which one runs at a time, switched where they sleep."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rowtide.runtime.crashpoints import SimulatedCrash
from rowtide.runtime.leadership.watch import Standby
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.status import Snapshot
from rowtide.testing.virtual_clock import VirtualClock
from simulation.turns import Condition, Process, Turns

TAKEOVER_S = 2.0

MakeContext = Callable[..., PipelineContext]
"""Returns the context of a pipeline, with the changes that are given."""


@dataclass
class ReplicaClock:
    """The clock of one replica: it shares the time of the others, and sleeps by itself."""

    replicas: Replicas
    process: Process | None = None
    wakes_at: float = 0.0
    stops: bool = False

    def now_ms(self) -> int:
        """Return the shared time."""
        return self.replicas.clock.now_ms()

    def monotonic(self) -> float:
        """Return the shared time."""
        return self.replicas.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let others run until the time has passed."""
        if self.process is None:
            return
        self.wakes_at = self.replicas.clock.seconds + seconds
        self.replicas.turns.give_back(self.process)
        if self.process.dies:
            raise SimulatedCrash("killed")


@dataclass
class Replica:
    """One replica; a test kills, suspends and stops it."""

    clock: ReplicaClock
    service: Service
    process: Process
    is_suspended: bool = False

    def stop(self) -> None:
        """Ask it to stop, as SIGTERM does."""
        self.clock.stops = True

    @property
    def status(self) -> Snapshot:
        """Return what its pages show."""
        return self.service.board.status()

    @property
    def role(self) -> str | None:
        """Return its role; None once it has ended."""
        if self.process.condition is Condition.ENDED or self.status.replica is None:
            return None
        return self.status.replica.role


@dataclass
class Replicas:
    """All replicas of a test."""

    context: MakeContext
    clock: VirtualClock
    turns: Turns = field(default_factory=Turns)
    held: list[Replica] = field(default_factory=list)

    def start(self, takeover_s: float = TAKEOVER_S, **changes: Any) -> Replica:
        """Start a replica."""
        clock = ReplicaClock(self)
        given = {"rng": random.Random(len(self.held)), "pace": Pace(500, 60, None, None), **changes}
        service = Service(
            self.context(
                clock=clock,
                stopping=lambda: clock.stops,
                standby=Standby(takeover_s),
                is_replica=True,
                threads=False,
                **given,
            )
        )
        process = self.turns.start("replica", lambda _process: service.run())
        clock.process, clock.wakes_at = process, self.clock.seconds
        replica = Replica(clock, service, process)
        self.held.append(replica)
        return replica

    def let_pass(self, seconds: float, each_turn: Callable[[], None] = lambda: None) -> None:
        """Let time pass for all replicas."""
        end = self.clock.seconds + seconds
        while True:
            awake = [
                each
                for each in self.held
                if not each.is_suspended and each.process.condition is not Condition.ENDED
            ]
            following = min(awake, key=lambda each: each.clock.wakes_at, default=None)
            if following is None or following.clock.wakes_at > end:
                self.clock.seconds = end
                return
            self.clock.seconds = max(self.clock.seconds, following.clock.wakes_at)
            each_turn()
            self.turns.give(following.process)
            if following.process.condition is Condition.ENDED:
                error = following.process.raised
                if error is not None and not isinstance(error, SimulatedCrash):
                    raise error

    def kill(self, replica: Replica) -> None:
        """Kill a replica where it sleeps."""
        replica.process.dies = True
        self.turns.give(replica.process)

    def leader(self) -> Replica:
        """Return the only replica that leads and is not suspended."""
        (found,) = [each for each in self.held if each.role == "leader" and not each.is_suspended]
        return found

    def followers(self) -> list[Replica]:
        """Return the replicas that follow."""
        return [each for each in self.held if each.role == "follower"]


@contextmanager
def replicas(context: MakeContext, clock: VirtualClock) -> Iterator[Replicas]:
    """Return replicas that all end with the block."""
    made = Replicas(context, clock)
    try:
        yield made
    finally:
        made.turns.end_all()
