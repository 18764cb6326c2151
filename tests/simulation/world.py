"""One run of a case: processes that die, pause and follow each other, over one broker and one database."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from rowtide.errors import SupersededError, TransientError
from rowtide.runtime.crashpoints import SimulatedCrash
from rowtide.runtime.leadership.watch import Standby
from rowtide.runtime.pace import Pace
from rowtide.runtime.retry import StoppedError
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory.source import MemorySource
from simulation.case import Case, Fault, Kind
from simulation.contents import contents
from simulation.database import SimulatedConnection, simulated_database
from simulation.files import database_file
from simulation.invariants import Invariants, Taken, ViolationError
from simulation.messages import filled
from simulation.model import Model, Replayed
from simulation.sessions import Sessions, SimulatedLedger
from simulation.topics import SimulatedTopic
from simulation.turns import Condition, Process, Turns
from simulation.workloads import PIPELINE, WORKLOADS, planned

Result = TypeVar("Result")

MOST_STEPS = 20_000
"""A run that needs more makes no progress."""
_COMMIT_ROWS = 8
_PACES = (
    Pace(0, _COMMIT_ROWS, None, None),
    Pace(0, _COMMIT_ROWS, 25, None, snapshot_part_bytes=2_000),
    Pace(0, _COMMIT_ROWS, 1, None),
)
"""Without snapshots, with some that take several commits each, and with one at every commit; processes take them in
turn."""
_STANDBY = Standby(takeover_s=2.0)
_SLICE = 5
"""With several replicas, another one has the turn after so many steps."""
_SEND_EVERY = 3
"""A statement is sent at a poll whose step is a multiple of it."""
_SEND = """insert into rowtide_statements (pipeline, content, outcome, sent_at)
  values (?, ?, 'QUEUED', '2026-01-01 00:00:00.000000')"""
_HAS_STATEMENTS = "select 1 from sqlite_master where name = 'rowtide_statements'"
_POLLS = (3, 7, 30, 12)
"""The messages of a poll, likewise."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and the process and call that it belongs to."""

    step: int
    process: str
    name: str

    def __str__(self) -> str:
        """Return a line of a journal."""
        return f"{self.step:6} {self.process}: {self.name}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its steps, the commits that were checked, its processes, and what went wrong, if anything."""

    case: Case
    steps: int
    commits: int
    processes: int
    violation: str | None
    epochs: int
    """How often the pipeline was taken."""
    ended: int
    """How often the session of a silent process was ended."""
    journal: tuple[Step, ...] = ()
    """What happened at each step, if that was asked for."""


@cache
def _model(workload: str, messages: int) -> Model:
    return Model(WORKLOADS[workload], messages)


@cache
def _compared(_workload: str, _messages: int) -> set[bytes]:
    """Return the states of databases that were compared with a replay, to which more are added."""
    return set()


def run(case: Case, *, with_journal: bool = False) -> Outcome:
    """Run a case to its end, in a database of its own."""
    with database_file(WORKLOADS[case.workload]) as file:
        return World(case, file, with_journal=with_journal).run()


class World:
    """What outlives the processes, and what happens to them."""

    def __init__(self, case: Case, file: Path, *, with_journal: bool) -> None:
        self._case = case
        self._plan = planned(WORKLOADS[case.workload])
        self._broker = filled(self._plan, case.messages)
        self._file = file
        self._clock = VirtualClock()
        self._turns = Turns()
        self._sessions = Sessions(self._clock)
        self._statements = list(WORKLOADS[case.workload].statements)
        self._queued = 0
        self._session = SqlSession()
        self._session.feed(WORKLOADS[case.workload].sql)
        self._invariants = Invariants(
            Replayed(WORKLOADS[case.workload], case.messages, file, _compared(case.workload, case.messages))
            if self._statements
            else _model(case.workload, case.messages)
        )
        self._faults: dict[int, list[Fault]] = {}
        for fault in case.faults:
            self._faults.setdefault(fault.step, []).append(fault)
        self._last = 0
        self._down: dict[str, int] = {}
        self._read_only_until = 0
        self._violation: str | None = None
        self._journal: list[Step] | None = [] if with_journal else None
        self._looking = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=0.2)
        self._version = self._data_version()
        self._ends = {
            (stream.name, partition): log.end
            for stream in self._plan.foreign_streams
            for partition, log in self._broker.topic(stream.name).items()
        }

    def run(self) -> Outcome:
        """Give turns until everything is committed, and then until every process has ended."""
        try:
            while self._violation is None:
                process = self._next()
                if process is None:
                    break
                self._turns.give(process)
                if process.condition is Condition.ENDED:
                    self._judge(process)
        finally:
            self._turns.end_all()
            self._looking.close()
        return Outcome(
            self._case,
            self._turns.step,
            self._invariants.commits,
            len(self._turns.processes),
            self._violation,
            self._invariants.epoch,
            self._sessions.ended,
            tuple(self._journal or ()),
        )

    def step(self, process: Process, name: str, breaks: Callable[[], None] | None) -> None:
        """Count a step, and let happen what the case says about it."""
        turns = self._turns
        if process.dies:
            raise SimulatedCrash(name)
        turns.step += 1
        if self._journal is not None:
            self._journal.append(Step(turns.step, process.name, name))
        if turns.step > MOST_STEPS:
            self.violate(f"no end after {MOST_STEPS} steps")
        if name.startswith("broker: poll ") and not name.endswith("reply"):
            self._send()
        for fault in self._faults.pop(turns.step, ()):
            self._strike(process, fault, name)
        dependency = name.partition(":")[0]
        if breaks is not None and self._down.get(dependency, 0) >= turns.step:
            breaks()
        is_over = self._case.replicas > 1 and turns.step % _SLICE == 0
        if turns.due() is not None or is_over:
            turns.give_back(process)

    def _strike(self, process: Process, fault: Fault, name: str) -> None:
        match fault.kind:
            case Kind.DIES:
                process.dies = True
                raise SimulatedCrash(name)
            case Kind.PAUSES:
                self._sessions.fall_silent(process)
                self._turns.pause(process, fault.steps)
            case Kind.BREAKS:
                self._down[name.partition(":")[0]] = self._turns.step + fault.steps - 1
            case Kind.READ_ONLY:
                self._read_only_until = self._turns.step + fault.steps

    def is_read_only(self) -> bool:
        """Return whether the database takes no writes now."""
        return self._turns.step < self._read_only_until

    def connected(self, process: Process, connection: SimulatedConnection) -> None:
        """Note a session of a process."""
        self._sessions.add(process, connection)

    def claims(self, process: Process) -> None:
        """Check that the record which a process claims is not held by one that is silent for long.

        A second fault may keep a process from finding or ending the session: then it claims all the same.
        """
        held = self._sessions.writer(process)
        is_silent = held is not None and (held.silent_s or 0.0) >= _STANDBY.silence_s
        is_only_fault = [fault.kind for fault in self._case.faults] == [Kind.PAUSES]
        if is_silent and is_only_fault and not self.is_done():
            self.violate(f"{process.name} claims what a silent session still holds")

    def committed(self, process: Process) -> None:
        """Check what a process has committed."""
        version = self._data_version()
        if version == self._version:
            return
        self._version = version
        self._queued = self._count_queued()
        try:
            self._invariants.check(process, self._taken(), contents(self._looking, self._plan))
        except ViolationError as error:
            self.violate(str(error))

    def violate(self, why: str) -> None:
        """End the run, because an invariant does not hold."""
        if self._violation is None:
            self._violation = f"step {self._turns.step}: {why}"
        self._turns.is_over = True
        raise SimulatedCrash(why)

    def is_done(self) -> bool:
        """Return whether everything in the topics is committed, and every statement is settled."""
        return self._invariants.positions == self._ends and not self._statements and not self._queued

    def _send(self) -> None:
        """Send the next statement from time to time, as a user does."""
        if self._statements and self._turns.step % _SEND_EVERY == 0 and self._rows(_HAS_STATEMENTS):
            row = (PIPELINE, self._statements[0])
            try:
                self._looking.execute(_SEND, row)
            except sqlite3.OperationalError:
                # A suspended process has a transaction open.
                return
            self._statements.pop(0)
            self._queued += 1

    def _count_queued(self) -> int:
        if not self._rows(_HAS_STATEMENTS):
            return 0
        return self._rows("select count(*) from rowtide_statements where outcome = 'QUEUED'")[0][0]

    def serve(self, process: Process) -> None:
        """Run the service; the program of a process."""
        simulated = _Calls(self, process)
        database = simulated_database(self._file, simulated)
        try:
            Service(
                PipelineContext(
                    name=PIPELINE,
                    plan=self._plan,
                    sources={
                        stream.name: SimulatedTopic(MemorySource(self._broker, stream.name), simulated)
                        for stream in self._plan.foreign_streams
                    },
                    database=database,
                    ledger=SimulatedLedger(
                        database, PIPELINE, process, self._sessions, lambda: self.claims(process)
                    ),
                    clock=simulated,
                    pace=_PACES[process.number % len(_PACES)],
                    stopping=self.is_done,
                    rng=random.Random(process.number),
                    threads=False,
                    poll_messages=_POLLS[process.number % len(_POLLS)],
                    statements=self._session.sent,
                    standby=_STANDBY,
                    is_replica=self._case.replicas > 1,
                )
            ).run()
        finally:
            database.close()

    def sleep(self, process: Process, seconds: float) -> None:
        """Let time pass, and others run."""
        self._clock.sleep(seconds)
        self.step(process, "sleep", None)
        if len(self._turns.ready()) > 1:
            self._turns.give_back(process)

    @property
    def clock(self) -> VirtualClock:
        """The time of the world."""
        return self._clock

    def _next(self) -> Process | None:
        """Return who has the next turn: who wakes, who waits longest, a new process; None: the run is over."""
        turns = self._turns
        woken = turns.due()
        ready = turns.ready()
        if woken is None and not ready and self.is_done():
            woken = next(iter(turns.paused()), None)
            if woken is None:
                return None
        if woken is not None:
            return woken
        running = len(ready) + len(turns.paused())
        if ready and (running >= self._case.replicas or self.is_done()):
            self._last = next((each for each in ready if each.number > self._last), ready[0]).number
            return next(each for each in ready if each.number == self._last)
        return turns.start("process", self.serve)

    def _judge(self, process: Process) -> None:
        """Decide whether a process may have ended as it did."""
        match process.raised:
            case None:
                allowed = self.is_done()
            case SimulatedCrash():
                allowed = process.dies
            case SupersededError():
                allowed = process is not self._invariants.owner
            case StoppedError():
                allowed = self.is_done()
            case TransientError():
                # A start ends if it is denied a right.
                allowed = any(fault.kind is Kind.READ_ONLY for fault in self._case.faults)
            case _:
                allowed = False
        if not allowed and self._violation is None:
            error = process.raised
            how = "before its work was done" if error is None else f"with {type(error).__name__}: {error}"
            self._violation = f"step {self._turns.step}: {process.name} ended {how}"

    def _taken(self) -> Taken | None:
        rows = self._rows("select 1 from sqlite_master where name = 'rowtide_pipelines'")
        found = self._rows("select epoch, commits from rowtide_pipelines") if rows else []
        return Taken(*found[0]) if found else None

    def _rows(self, query: str) -> list[tuple[int, ...]]:
        return self._looking.execute(query).fetchall()

    def _data_version(self) -> int:
        return int(self._looking.execute("pragma data_version").fetchone()[0])


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of one process: database, broker and clock."""

    world: World
    process: Process

    def call(self, name: str, action: Callable[[], Result], breaks: Callable[[], None]) -> Result:
        self.world.step(self.process, name, breaks)
        result = action()
        self.world.step(self.process, f"{name}, reply", breaks)
        return result

    def is_read_only(self) -> bool:
        return self.world.is_read_only()

    def committed(self) -> None:
        self.world.committed(self.process)

    def connected(self, connection: SimulatedConnection) -> None:
        self.world.connected(self.process, connection)

    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def monotonic(self) -> float:
        return self.world.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self.world.sleep(self.process, seconds)
