"""W3 on few events: every event deletes and inserts, but for the first one of each key."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.bench.events import events
from rowtide.bench.running import w3
from rowtide.clock import SystemClock


@pytest.mark.parametrize("count", [1, 20_001])
def test_every_event_tells_a_new_average(count: int, tmp_path: Path) -> None:
    keys = set(events(count, tmp_path).key.tolist())
    outcome = w3(count, tmp_path, SystemClock())
    assert (outcome.rows_out, outcome.check) == (2 * count - len(keys), "ok")
