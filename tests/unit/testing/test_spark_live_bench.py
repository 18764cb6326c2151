"""What the benchmark of live processing on Spark calls a latency."""

from __future__ import annotations

from typing import cast

from rowtide.bench import spark_live
from rowtide.testing.virtual_clock import VirtualClock

LAG_MS = 700
BATCH = 50


class Feed:
    """Messages of this moment."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.stamps: list[int] = [clock.now_ms()] * 3

    def add(self, count: int) -> None:
        self.stamps += [self._clock.now_ms()] * count


def test_messages_come_at_the_rate_and_each_waits_for_the_commit_that_is_seen_to_have_it() -> None:
    clock = VirtualClock()
    feed = Feed(clock)

    def committed() -> int:
        ready = sum(stamp <= clock.now_ms() - LAG_MS for stamp in feed.stamps)
        return ready if ready == 3 + spark_live.RATE * spark_live.PACED_S else ready - ready % BATCH

    found = spark_live._paced(cast("spark_live._Feed", feed), committed, clock)
    assert len(found) == spark_live.RATE * spark_live.PACED_S
    assert feed.stamps[-1] - feed.stamps[3] >= 1_000 * (spark_live.PACED_S - 1)
    poll_ms = 1_000 * spark_live.POLL_S
    longest = LAG_MS + 1_000 * BATCH / spark_live.RATE + 2 * poll_ms
    assert min(found) >= LAG_MS
    assert LAG_MS + 100 < max(found) <= longest
