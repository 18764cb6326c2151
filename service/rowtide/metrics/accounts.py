"""Law 4 as metrics: per relation, rows in = done + filtered + late + rejected + held.

An account is a running total that outlives the process, a counter counts what
this process saw. So the totals that a pipeline starts with are a base line, and
each call moves the counters by what the totals grew since the call before.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.metrics.metrics import Metrics

FATES = ("rows_in", "done", "filtered", "late", "rejected", "rows_out")


class AccountCounts:
    """Moves the row counters of relations to follow their accounts; owned by one thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._held = metrics.rows_held
        self._counters = dict(
            zip(
                FATES,
                (
                    metrics.rows_in,
                    metrics.rows_done,
                    metrics.rows_filtered,
                    metrics.rows_late,
                    metrics.rows_rejected,
                    metrics.rows_out,
                ),
                strict=True,
            )
        )
        self._totals: dict[str, dict[str, int]] = {}

    def start_at(self, relation: str, totals: Mapping[str, int], held: int) -> None:
        """Take ``totals`` (by the names in ``FATES``) as what was counted before this process.

        The relation has all its samples from then on.
        """
        self._totals[relation] = {fate: totals[fate] for fate in FATES}
        self.follow(relation, totals, held)

    def follow(self, relation: str, totals: Mapping[str, int], held: int) -> None:
        """Move the counters of ``relation`` to ``totals``; a relation never seen starts at zero.

        Raises:
          ValueError: if a total went back; nothing was counted.
        """
        before = self._totals.setdefault(relation, dict.fromkeys(FATES, 0))
        grown = {fate: totals[fate] - before[fate] for fate in FATES}
        for fate, rows in grown.items():
            if rows < 0:
                raise ValueError(f'{fate} of "{relation}" went back by {-rows}')
        for fate, rows in grown.items():
            self._counters[fate].labels(relation).inc(rows)
            before[fate] = totals[fate]
        self._held.labels(relation).set(held)
