"""A pipeline's status and a clock that stands still, for tests of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.runtime.inspect.status import Phase
from rowtide.web import PositionStatus
from rowtide.web.status import Summary


@dataclass(frozen=True)
class AtPartition:
    relation: str = "ORDERS"
    topic: str = "orders"
    partition: int = 0
    next_offset: int = 42
    end_offset: int | None = 50
    bound: int | None = 1_000


@dataclass(frozen=True)
class Now:
    pipeline: str = "orders_per_minute"
    phase: Phase = "running"
    since_ms: int = 5_000
    waits_for: str | None = None
    epoch: int | None = 3
    last_commit_ms: int | None = 9_000
    positions: Sequence[PositionStatus] = (AtPartition(),)
    pending: Sequence[tuple[str, int]] = (("ALERTS", 7),)
    summary: Summary | None = None
    beat: float = 100.0


class Pipeline:
    def __init__(self) -> None:
        self.now = Now()

    def status(self) -> Now:
        return self.now


class StoppedClock:
    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 10_000

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
