"""Processes as threads of which one runs at a time: every switch happens at a step, so a run can be repeated.

A *step* is the moment before or after a call that leaves the process: a statement of the database, a call
of the broker, a sleep. Steps are counted over all processes of a world.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from rowtide.runtime.crashpoints import SimulatedCrash


class Condition(Enum):
    """What a process does when it gets the turn."""

    READY = "ready"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(slots=True)
class Process:
    """One simulated process. ``body`` is its program; ``raised`` is the exception that ended it, if any."""

    number: int
    role: str
    body: Callable[[Process], None]
    condition: Condition = Condition.READY
    wakes_at: int = 0
    """The step at which a paused process goes on."""
    dies: bool = False
    """It has died, and makes no further call."""
    raised: BaseException | None = None
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def name(self) -> str:
        """Return a name for reports."""
        return f"{self.role} {self.number}"


class Turns:
    """Lets one process run at a time. Only the thread that calls ``give`` uses it."""

    def __init__(self) -> None:
        self.step = 0
        self.is_over = False
        """Every process that gets the turn from now on ends at once."""
        self.processes: list[Process] = []
        self._own = threading.Semaphore(0)

    def start(self, role: str, body: Callable[[Process], None]) -> Process:
        """Add a process, which begins when it first gets the turn."""
        process = Process(len(self.processes) + 1, role, body)
        self.processes.append(process)
        threading.Thread(target=self._run, args=(process,), name=process.name, daemon=True).start()
        return process

    def give(self, process: Process) -> None:
        """Let a process run until it gives the turn back or ends."""
        process.condition = Condition.READY
        process.turn.release()
        self._own.acquire()

    def give_back(self, process: Process) -> None:
        """Wait for the next turn; called by the process that has it."""
        self._own.release()
        process.turn.acquire()
        self._end_if_over()

    def pause(self, process: Process, steps: int) -> None:
        """Suspend the process that has the turn for a number of steps of others."""
        process.condition, process.wakes_at = Condition.PAUSED, self.step + steps
        self.give_back(process)

    def due(self) -> Process | None:
        """Return a paused process that is to go on now."""
        return next((each for each in self.paused() if each.wakes_at <= self.step), None)

    def paused(self) -> list[Process]:
        """Return the suspended processes, the first one first."""
        return sorted(self._which(Condition.PAUSED), key=lambda each: each.wakes_at)

    def ready(self) -> list[Process]:
        """Return the processes that can go on."""
        return self._which(Condition.READY)

    def end_all(self) -> None:
        """End every process where it is, as by a crash."""
        self.is_over = True
        for process in self.processes:
            if process.condition is not Condition.ENDED:
                self.give(process)

    def _which(self, condition: Condition) -> list[Process]:
        return [each for each in self.processes if each.condition is condition]

    def _end_if_over(self) -> None:
        if self.is_over:
            raise SimulatedCrash("the simulation is over")

    def _run(self, process: Process) -> None:
        process.turn.acquire()
        try:
            self._end_if_over()
            process.body(process)
        except BaseException as error:  # noqa: BLE001 - the world judges it
            process.raised = error
        finally:
            process.condition = Condition.ENDED
            self._own.release()
