"""The counts of rows as metrics.

An account is a running total that outlives the process, a counter counts what
this process saw. So the totals that a pipeline starts with are a base line, and
each call moves the counters by what the totals grew since the call before.
"""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import Counter, Gauge

from rowtide.metrics.metrics import Metrics

FATES = ("rows_in", "done", "filtered", "late", "rejected", "rows_out")


class AccountCounts:
    """Moves the row counters of relations to follow their accounts; owned by one thread.

    The counts of a relation are the totals of ``FATES``, in this order, and the number of held rows.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counts: dict[str, tuple[int, ...]] = {}
        self._shown: dict[str, tuple[list[Counter], Gauge]] = {}

    def start_at(self, relation: str, counts: Sequence[int]) -> None:
        """Take ``counts`` as what was counted before this process.

        The relation has all its samples from then on.
        """
        self._counts[relation] = tuple(counts)
        self._samples(relation)[1].set(counts[-1])

    def follow(self, relation: str, counts: Sequence[int]) -> None:
        """Move the counters of ``relation`` to ``counts``; a relation never seen starts at zero.

        Raises:
          ValueError: if a total went back; nothing was counted.
        """
        now = tuple(counts)
        before = self._counts.get(relation)
        if now == before:
            return
        if before is None:
            before = (0,) * len(now)
        grown = [total - earlier for total, earlier in zip(now[:-1], before[:-1], strict=True)]
        for fate, rows in zip(FATES, grown, strict=True):
            if rows < 0:
                raise ValueError(f'{fate} of "{relation}" went back by {-rows}')
        counters, held = self._samples(relation)
        for counter, rows in zip(counters, grown, strict=True):
            if rows:
                counter.inc(rows)
        held.set(now[-1])
        self._counts[relation] = now

    def _samples(self, relation: str) -> tuple[list[Counter], Gauge]:
        if relation not in self._shown:
            metrics = self._metrics
            totals = (
                metrics.rows_in,
                metrics.rows_done,
                metrics.rows_filtered,
                metrics.rows_late,
                metrics.rows_rejected,
                metrics.rows_out,
            )
            self._shown[relation] = (
                [each.labels(relation) for each in totals],
                metrics.rows_held.labels(relation),
            )
        return self._shown[relation]
