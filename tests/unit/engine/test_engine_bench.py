from __future__ import annotations

from collections.abc import Callable

import pytest

from rowtide.testing.engine_bench import ENGINE_BENCHMARKS, Prepared


@pytest.mark.parametrize("prepare", ENGINE_BENCHMARKS.values(), ids=ENGINE_BENCHMARKS.keys())
@pytest.mark.parametrize("events", [1, 250, 1001])
def test_a_benchmark_gives_what_a_plain_loop_gives(
    prepare: Callable[[int, int], Prepared], events: int
) -> None:
    prepared = prepare(events, 100)
    assert prepared.rows == events
    assert prepared.run() == pytest.approx(prepared.expected, rel=1e-9)
