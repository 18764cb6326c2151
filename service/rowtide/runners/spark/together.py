"""Stages of a run that do not read each other's rows: their jobs run at the same time.

The work of a stage is a generator. It yields the jobs of Spark that it needs, one after the other, and gets what each
has given. Only a job runs in a thread of its own: everything else, and so every change of what the driver keeps of a
run, happens in the thread that runs them all, one stage at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from rowtide.runners.spark.shuffle.held import StageGiven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS_AT_ONCE = 8
"""Jobs that Spark gets at once: more would rather hold each other's memory than end earlier."""

WAITING_S = 0.25
"""Time between two calls of what is to be done while jobs run."""

Job = Callable[[], StageGiven]
StageWork = Generator[Job, StageGiven, None]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: ``description`` names its jobs, ``after`` are the numbers of stages that must have ended before."""

    description: str
    work: Callable[[], StageWork]
    after: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a job: what it has given, or its error."""

    number: int
    given: StageGiven | None = None
    error: BaseException | None = None


def run_together(
    session: SparkSession,
    stages: Mapping[int, Stage],
    ended: Callable[[int], None] = lambda _number: None,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Run stages, each as soon as those that it is after have ended; ``ended`` gets the number of each in turn.

    ``waiting`` is called again and again while jobs run. If it or a stage fails, the jobs that run are cancelled and
    waited for, and its error is raised.
    """
    _Together(session, stages, ended, waiting).run()


class _Together:
    def __init__(
        self,
        session: SparkSession,
        stages: Mapping[int, Stage],
        ended: Callable[[int], None],
        waiting: Callable[[], None],
    ) -> None:
        self._context = session.sparkContext
        self._group = f"rowtide-{uuid.uuid4().hex}"
        self._stages = stages
        self._ended = ended
        self._waiting = waiting
        self._left = dict(stages)
        """The stages that have not begun."""
        self._done: set[int] = set()
        self._works: dict[int, StageWork] = {}
        self._ready: list[tuple[int, Job]] = []
        """Jobs that wait for a place."""
        self._running = 0
        self._ends: SimpleQueue[_Ended] = SimpleQueue()

    def run(self) -> None:
        try:
            self._begin()
            while self._running:
                end = self._next_end()
                self._running -= 1
                if end.error is not None:
                    raise end.error
                assert end.given is not None
                self._go_on(end.number, end.given)
                self._begin()
        except BaseException as error:
            try:
                self._cancel()
            except Exception as failed:  # noqa: BLE001 - Spark itself may be gone, which the first error says
                error.add_note(f"the other jobs were not cancelled: {failed}")
            raise

    def _next_end(self) -> _Ended:
        while True:
            try:
                return self._ends.get(timeout=WAITING_S)
            except Empty:
                self._waiting()

    def _begin(self) -> None:
        """Begin what may begin: a stage that needs no job ends at once, and may let others begin."""
        while due := [at for at, each in self._left.items() if self._done.issuperset(each.after)]:
            for number in due:
                self._works[number] = self._left.pop(number).work()
                self._go_on(number, None)
        while self._ready and self._running < JOBS_AT_ONCE:
            number, job = self._ready.pop(0)
            Thread(target=self._run_job, args=(number, job), daemon=True).start()
            self._running += 1

    def _go_on(self, number: int, given: StageGiven | None) -> None:
        """Continue the work of a stage up to its next job, or its end."""
        work = self._works[number]
        try:
            job = next(work) if given is None else work.send(given)
        except StopIteration:
            self._done.add(number)
            self._ended(number)
        else:
            self._ready.append((number, job))

    def _run_job(self, number: int, job: Job) -> None:
        try:
            # Of this thread: Spark keeps such properties apart.
            self._context.setJobGroup(self._group, self._stages[number].description)
            end = _Ended(number, job())
        except BaseException as error:  # noqa: BLE001 - it is raised by the thread that waits
            end = _Ended(number, error=error)
        self._ends.put(end)

    def _cancel(self) -> None:
        """Cancel the jobs that run, and wait until they have ended: nothing of a run may outlive it."""
        try:
            if self._running:
                self._context.cancelJobGroup(self._group)
        finally:
            while self._running:
                self._ends.get()
                self._running -= 1
            for work in self._works.values():
                work.close()
