from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.bench.events import events, trades
from rowtide.bench.joins import w5, w6
from rowtide.clock import SystemClock


@pytest.mark.parametrize("count", [1, 2_001])
def test_every_event_meets_the_table(count: int, tmp_path: Path) -> None:
    assert w5(count, tmp_path, SystemClock()).rows_out == count


@pytest.mark.parametrize("count", [1, 20_001])
def test_a_trade_meets_its_order_of_the_last_ten_minutes(count: int, tmp_path: Path) -> None:
    times = events(count, tmp_path).ts.tolist()
    expected = sum(
        order >= 0 and 0 <= times[2 * number + 1] - times[2 * order] <= 600_000
        for number, order in enumerate(trades(count).tolist())
    )
    assert w6(count, tmp_path, SystemClock()).rows_out == expected
