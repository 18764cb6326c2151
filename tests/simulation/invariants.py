"""What holds at every commit, checked as it happens and not at the end only.

1. The tables, error rows and bounds are those of a run without faults up to the committed positions.
2. No position goes back.
3. Only the process that has taken the newest epoch writes.
4. A commit raises the number of commits by one at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rowtide.checkpoint.ledger import PartitionId
from simulation.contents import Contents
from simulation.model import Expected
from simulation.turns import Process


class ViolationError(Exception):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The epoch of a pipeline and the number of its commits."""

    epoch: int
    commits: int


@dataclass(slots=True)
class Invariants:
    """Looks at the database after each transaction that changed it."""

    expected: Expected
    commits: int = 0
    """The commits that were checked."""
    positions: dict[PartitionId, int] = field(default_factory=dict)
    owner: Process | None = None
    """The process that has taken the newest epoch."""
    _taken: Taken | None = None

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return 0 if self._taken is None else self._taken.epoch

    def check(self, process: Process, taken: Taken | None, held: Contents) -> None:
        """Check what ``process`` has just committed.

        Raises:
          ViolationError: an invariant does not hold.
        """
        if taken is not None and (self._taken is None or taken.epoch > self._taken.epoch):
            self.owner = process
        elif taken is not None and self.owner is not process:
            owner = "no process" if self.owner is None else self.owner.name
            raise ViolationError(f"{process.name} wrote, but {owner} has the newest epoch")
        elif self._taken is not None and taken is None:
            raise ViolationError("the record of the pipeline is gone")
        if taken is not None and self._taken is not None:
            if taken.epoch < self._taken.epoch:
                raise ViolationError(f"the epoch went back from {self._taken.epoch} to {taken.epoch}")
            if taken.commits - self._taken.commits not in (0, 1):
                raise ViolationError(f"commits went from {self._taken.commits} to {taken.commits}")
        self._taken = taken
        for place, offset in self.positions.items():
            if held.positions.get(place, -1) < offset:
                raise ViolationError(
                    f"the position of {place} went back: {offset} to {held.positions.get(place)}"
                )
        self.positions = dict(held.positions)
        if self.positions:
            self.commits += 1
            difference = self.expected.difference(held)
            if difference is not None:
                raise ViolationError(f"at positions {self.positions}: {difference}")
