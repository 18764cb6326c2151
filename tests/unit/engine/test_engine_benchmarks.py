from __future__ import annotations

from collections.abc import Callable

import pytest

from rowtide.bench.engine import WORKS, PreparedBench


@pytest.mark.parametrize("prepare", [work for _, work in WORKS.values()], ids=WORKS.keys())
@pytest.mark.parametrize("events", [1, 250, 1001])
def test_a_benchmark_gives_what_a_plain_loop_gives(
    prepare: Callable[[int, int], PreparedBench], events: int
) -> None:
    prepared = prepare(events, 100)
    assert prepared.run() == pytest.approx(prepared.expected, rel=1e-9)
