"""The history of the counts: what is kept, for how long, and within which memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.runtime.progress.history import COARSE_MS, FINE_MS, HOUR_MS, LIMIT_BYTES, RECENT_MS, History
from rowtide.runtime.progress.layout import BOUND, Integers


def counts(number: int, relations: int = 2) -> Integers:
    return np.full((relations, BOUND + 1), number, np.int64)


@settings(deadline=None)
@given(st.lists(st.integers(1, 90_000), min_size=1, max_size=300), st.integers(0, 4_000_000))
def test_each_kept_time_has_its_counts_and_the_newest_is_always_kept(steps: list[int], since: int) -> None:
    history, now, added = History(2), 1_700_000_000_000, {}
    begin = now
    for number, step in enumerate(steps):
        now += step
        history.add(now, counts(number))
        added[now] = number
    rows = list(history.rows(begin + since))
    times = [time for time, _ in rows]
    assert times == sorted(set(times))
    assert all(time >= begin + since and (kept == added[time]).all() for time, kept in rows)
    if now >= begin + since:
        assert times[-1] == now
    # Nothing of the last five minutes is missing, but what followed within the same second.
    recent = [time for time in added if time >= max(now - RECENT_MS + FINE_MS, begin + since)]
    seconds = {time // FINE_MS for time in times}
    assert all(time // FINE_MS in seconds for time in recent)
    hour = [time for time in added if time >= max(now - HOUR_MS + COARSE_MS, begin + since)]
    tens = {time // COARSE_MS for time in times}
    assert all(time // COARSE_MS in tens for time in hour)


def test_the_history_of_many_relations_is_coarser_and_not_larger() -> None:
    for relations, each_ms in ((1, 1_000), (450, 1_000), (1_000, 3_000), (20_000, 45_000)):
        history = History(relations)
        assert (history.recent.each_ms, history.hour.each_ms) == (each_ms, 10 * each_ms)
        held = history.recent._counts.nbytes + history.hour._counts.nbytes
        assert held <= LIMIT_BYTES
