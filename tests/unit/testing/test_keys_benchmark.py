"""The benchmark of many keys gives a row for each key, and two for every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.bench.keys import keys
from rowtide.clock import SystemClock


@pytest.mark.parametrize(("size", "count"), [(1, 1), (7, 20_001), (20_000, 100)])
def test_every_event_of_every_key_tells_a_new_average(size: int, count: int, tmp_path: Path) -> None:
    outcome = keys(size, count, tmp_path, SystemClock())
    assert (outcome.rows_out, outcome.check) == (size + 2 * count, "ok")
