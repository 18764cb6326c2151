from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.bench.suite import benchmarks
from rowtide.clock import SystemClock


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4", "W5", "W6"])
def test_a_kernel_written_for_one_query_gives_as_many_rows_as_the_query(name: str, tmp_path: Path) -> None:
    known = benchmarks()
    ours, by_hand = (known[each].run(20_000, tmp_path, SystemClock()) for each in (name, f"{name}-by-hand"))
    assert by_hand.rows_out == ours.rows_out > 0
