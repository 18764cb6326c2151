"""The lines that ``rowtide run`` writes on a terminal: what it has done, and what it waits for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from rowtide.clock import SystemClock
from rowtide.config.settings import LogSettings
from rowtide.rowtime.text import time_text
from rowtide.runtime.logs import is_for_people
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.service import Service
from rowtide.runtime.state.status import Snapshot, lag_of

EACH_S = 10.0
"""The time from one line to the next."""


def wants_lines(log: LogSettings) -> bool:
    """Return whether a person looks on: standard output is a terminal, and the log is text."""
    return sys.stdout.isatty() and is_for_people(log)


@contextmanager
def progress_lines(service: Service, each_s: float = EACH_S) -> Iterator[None]:
    """Write a line each ``each_s`` within the block."""
    over, clock = threading.Event(), SystemClock()

    def write() -> None:
        before, began = service.board.status(), clock.monotonic()
        # The main loop finds out what holds rows back while somebody watches: it is known after half of the time.
        while not over.wait(each_s / 2):
            service.progress.watch()
            if over.wait(each_s / 2):
                return
            now, ended = service.board.status(), clock.monotonic()
            line = progress_line(now, before, ended - began, service.progress.held_back or ())
            typer.echo(f"{time_text(clock.now_ms())} {line}")
            before, began = now, ended

    writer = threading.Thread(target=write, name="rowtide-lines", daemon=True)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def progress_line(
    now: Snapshot, before: Snapshot, seconds: float, held_back: Sequence[HoldingPartition]
) -> str:
    """Return the line for the status ``now``, ``seconds`` after the one ``before``."""
    parts = []
    if (done := now.summary) is not None:
        lag = lag_of(now.positions)
        # A replica that takes over, or follows again, counts from 0.
        read = max(0, done.read - (0 if before.summary is None else before.summary.read))
        parts += [
            f"read {done.read:,} ({read / seconds:,.0f}/s)",
            f"written {sum(done.written.values()):,}",
            f"late {sum(done.late.values()):,}",
            f"rejected {sum(done.rejected.values()):,}",
            f"held {done.held:,}",
            f"lag {'unknown' if lag is None else f'{lag:,}'}",
        ]
    if now.replica is not None and now.replica.role == "follower":
        parts.append(f"{now.replica.lag_commits:,} commits behind")
    return "; ".join([": ".join([now.phase, *filter(None, [", ".join(parts)])]), *_waits(now, held_back)])


def _waits(now: Snapshot, held_back: Sequence[HoldingPartition]) -> Iterator[str]:
    """Yield what is waited for: a dependency, or else the partition that holds most rows back."""
    if now.waits_for is not None:
        yield f"waits for the {now.waits_for}"
    elif held_back:
        first, others = held_back[0], len(held_back) - 1
        where = f'"{first.relation}"'
        if first.topic is not None:
            where = f'partition {first.partition} of topic "{first.topic}"'
        more = f" and {others:,} more" if others else ""
        rows = "1 row waits" if first.rows == 1 else f"{first.rows:,} rows wait"
        yield f"{rows} for {where}{more} ({first.cause})"
