"""An aggregate in Python over groups that only grow: the stored state of each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.errors import RejectedRowError
from rowtide.expr.python.states import aggregator_of
from rowtide.expr.tree import PythonAggregate
from rowtide.operators.aggregates.groups.group_functions import rows_of
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Groups = NDArray[np.int64]


class GroupStates:
    """The accumulator. ``fits`` computes the new states, so ``add`` calls no user's code again."""

    def __init__(self, of: PythonAggregate, kind: Type) -> None:
        self._aggregator = aggregator_of(of)
        self._type = kind
        self._held: list[bytes | None] = []
        self._tried: tuple[Groups, Mask, dict[int, bytes]] | None = None
        self.failure: RejectedRowError | None = None
        """Why a row did not fit the last time."""

    def reserve(self, groups: int) -> None:
        self._held.extend([None] * (groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return None

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        try:
            self._tried = (groups, use, self._added(groups, column, use))
        except RejectedRowError as error:
            self.failure = error
            return False
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        tried, self._tried = self._tried, None
        if tried is None or tried[0] is not groups or tried[1] is not use:
            states = self._added(groups, column, use)
        else:
            states = tried[2]
        for group, state in states.items():
            self._held[group] = state

    def results(self, count: int) -> Column:
        return Column.from_values(self._type, self._held[:count])

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]

    def state(self, count: int) -> pa.Table:
        return pa.table({"state": pa.array(self._held[:count], pa.large_binary())})

    def load(self, table: pa.Table) -> None:
        self._held = table.column("state").to_pylist()

    def _added(self, groups: Groups, column: Column | None, use: Mask) -> dict[int, bytes]:
        """Return the new states of the groups that get a row.

        Raises:
          RejectedRowError: a row cannot be added.
        """
        added, held, found = self._aggregator.added, self._held, dict[int, bytes]()
        for group, value in rows_of(groups, column, use):
            found[group] = added(found.get(group) or held[group], value)
        return found
