"""Which form of its operator does a node's work: a compiled one, or plain Python that goes row by row.

Both give the same rows in the same order; the choice depends on the plan alone, and EXPLAIN shows it.
"""

from __future__ import annotations

from enum import Enum
from itertools import chain

import numpy as np

from rowtide.plan.nodes import KeyedTable, Node, WindowJoin
from rowtide.rows.types import RowType


class Path(Enum):
    """How an operator works."""

    COMPILED = "compiled"
    BY_ROW = "row by row"


def path_of(node: Node) -> Path | None:
    """Give the path of a node whose operator has two; None for any other."""
    match node:
        case KeyedTable(key=key, row_type=row_type):
            return Path.BY_ROW if not key or any(_kept(row_type, key)) else Path.COMPILED
        case WindowJoin(left=left, right=right, left_key=left_key, right_key=right_key):
            keys = chain(_kept(left.row_type, left_key), _kept(right.row_type, right_key))
            # Wide decimals are Python integers: they have no code that a kernel could compare.
            return Path.BY_ROW if any(keys) else Path.COMPILED
        case _:
            return None


def _kept(row_type: RowType, key: tuple[int, ...]) -> list[bool]:
    """Tell of each key field whether its values are Python objects."""
    kinds = [row_type[index].type for index in key]
    return [kind.dtype == np.dtype(object) and not kind.is_variable_width for kind in kinds]
