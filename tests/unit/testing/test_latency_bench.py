"""What the benchmark of latency measures, and that a line tells what else was measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rowtide.bench import latency
from rowtide.bench.suite import Benchmark, Outcome, measure
from rowtide.clock import Clock, SystemClock


class Stands:
    """A clock that stands where it is put."""

    now = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def test_each_message_waits_from_its_append_to_the_commit_that_is_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latency, "BEFORE", 1)
    clock = Stands()
    watch = latency._Watch(clock, (), 5)

    def entered(*timestamps: int) -> None:
        messages = SimpleNamespace(timestamps=np.array(timestamps, dtype=np.int64))
        watch.entered(cast("Any", SimpleNamespace(messages=messages)))

    def committed(next_offset: int, now: int) -> None:
        clock.now = now
        cut = SimpleNamespace(partition_positions=[SimpleNamespace(next_offset=next_offset)])
        watch.committed(cast("Any", None), cast("Any", cut), (), 0.0)

    entered(100, 110, 120)
    committed(2, 130)
    entered(125, 140)
    committed(4, 150)
    assert not watch.done
    committed(5, 160)
    assert watch.done
    found, seconds = watch.latencies()
    assert found.tolist() == [130 - 110, 150 - 120, 150 - 125, 160 - 140]
    assert seconds == pytest.approx(0.05)


def test_a_line_gives_the_median_of_what_else_was_measured(tmp_path: Path) -> None:
    values = iter([30.0, 10.0, 20.0])

    def run(count: int, cache: Path, clock: Clock) -> Outcome:
        return Outcome(1.0, count, "ok", {"p50_ms": next(values)})

    bench = Benchmark("b", "about", 5, run, warm=False)
    line = measure(bench, events=None, repeat=3, cache=tmp_path, clock=SystemClock())
    assert line["p50_ms"] == 20.0
