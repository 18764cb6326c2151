"""The rest of a join's ON besides equal keys, over columns of candidate pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.expr.columnar import RowErrors, compile_columns
from rowtide.expr.tree import fields_used, renumbered
from rowtide.operators.contract import Fault
from rowtide.operators.faults import rejected
from rowtide.operators.storage.row_store import Numbers, RowStore
from rowtide.plan.nodes import WindowJoin
from rowtide.rows.arrays import Mask
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType


class PairCondition:
    """The condition of a windowed join. Uses only the fields that it reads."""

    def __init__(self, node: WindowJoin) -> None:
        if node.condition is None:
            raise ValueError("the join has no condition")
        self._relation = node.relation
        self._names = node.row_type.names
        self._width = len(node.left.row_type)
        self._fields = sorted(fields_used(node.condition))
        self._row_type = RowType(tuple(node.row_type[index] for index in self._fields))
        places = {index: place for place, index in enumerate(self._fields)}
        self._evaluate = compile_columns(renumbered(node.condition, places))

    def judge(
        self, left: RowStore, right: RowStore, lefts: Numbers, rights: Numbers, times: NDArray[np.int64]
    ) -> tuple[Mask, list[Fault]]:
        """Return the matching pairs, and the faults of those for which the condition fails."""
        columns = [
            left.column(field, lefts) if field < self._width else right.column(field - self._width, rights)
            for field in self._fields
        ]
        counter = np.arange(len(times), dtype=np.int64)
        found = self._evaluate(Tray.from_columns(self._row_type, columns, times, 0, counter))
        agree = found.column.values
        if found.column.valid is not None:
            agree = agree & found.column.valid
        if found.errors is None:
            return agree, []
        agree = agree & ~found.errors.mask(len(times))
        return agree, self._faults(left, right, lefts, rights, found.errors)

    def _faults(
        self, left: RowStore, right: RowStore, lefts: Numbers, rights: Numbers, errors: RowErrors
    ) -> list[Fault]:
        """Make the faults: each is one of the left row."""
        of_left, of_right = left.take(lefts[errors.rows]).rows(), right.take(rights[errors.rows]).rows()
        found = []
        for error, timed, other in zip(errors, of_left, of_right, strict=True):
            pair = timed._replace(row=timed.row + other.row)
            found.append(rejected(self._relation, error.reason, error.message, pair, self._names))
        return found
