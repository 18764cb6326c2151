"""What has given the rowtime bound of each partition: its rows, a bound record, an idle time-out, another decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from rowtide.checkpoint.ledger import CUT, RESET, Decision, PartitionId, PartitionPosition
from rowtide.flow.flow import Flow
from rowtide.runtime.ingest.idle import IDLE

BoundOrigin = Literal["row", "bound", "idle", "decision"]


class BoundOrigins:
    """Follows the logged decisions that give partitions an explicit bound.

    Args:
      decisions: those that are committed.
    """

    def __init__(self, decisions: Iterable[Decision]) -> None:
        # By the judge that a decision is for. Bounds only rise: the last one counts.
        self._decided: dict[PartitionId, dict[str | None, int]] = {}
        self.note(decisions)

    def note(self, decisions: Iterable[Decision]) -> None:
        """Note the decisions of a commit."""
        for each in decisions:
            if each.bound is not None and each.kind not in (IDLE, RESET, CUT):
                self._decided.setdefault((each.relation, each.partition), {})[each.reader] = each.bound

    def of(self, position: PartitionPosition, flow: Flow) -> BoundOrigin | None:
        """Return what has given the bound of a partition, which is at this position in ``flow``."""
        if position.bound is None:
            return None
        giver, explicit = flow.bound_giver(*position.place)
        if giver != "explicit":
            return "row" if giver == "row" else "idle"
        decided = self._decided.get(position.place, {}).values()
        return "decision" if position.bound in decided or explicit in decided else "bound"
