"""Which form of its operator does a node's work: a compiled one, or plain Python that goes row by row.

Both give the same rows in the same order; the choice depends on the plan alone, and EXPLAIN shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import chain

import numpy as np

from rowtide.expr.columnar import without_kernel
from rowtide.expr.tree import AggregateCall
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Node,
    Project,
    Promote,
    Source,
    TableSource,
    UniqueTable,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.show import show_aggregate, show_window_call
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.rows.types import RowType
from rowtide.rowtime.period import Period


class Path(Enum):
    """How an operator works."""

    COMPILED = "compiled"
    BY_ROW = "row by row"


def path_of(node: Node) -> Path | None:
    """Give the path of a node whose operator has two; None for any other."""
    match node:
        case UniqueTable():
            return Path.BY_ROW
        case KeyedTable(key=key, row_type=row_type):
            # Without a key, rows are told apart by all that they have.
            told_by = key or tuple(range(len(row_type)))
            return Path.BY_ROW if any(_kept(row_type, told_by)) else Path.COMPILED
        case WindowJoin(left=left, right=right, left_key=left_key, right_key=right_key):
            keys = chain(_kept(left.row_type, left_key), _kept(right.row_type, right_key))
            # Wide decimals are Python integers: they have no code that a kernel could compare.
            return Path.BY_ROW if any(keys) else Path.COMPILED
        case TableJoin(input=below, condition=condition):
            fields = _kept(below.row_type, tuple(range(len(below.row_type))))
            return Path.BY_ROW if condition is not None or any(fields) else Path.COMPILED
        case TopChanges(keys=order, row_type=row_type):
            fields = _kept(row_type, tuple(range(len(row_type))))
            # The codes of texts say nothing about their order.
            texts = [row_type[index].type.is_variable_width for index, _ in order]
            return Path.BY_ROW if any(fields) or any(texts) else Path.COMPILED
        case WindowAggregate(frame=frame, calls=calls):
            compiled = all(_has_kernel(call, frame) for call in calls)
            return Path.COMPILED if compiled else Path.BY_ROW
        case GroupChanges():
            at_once = node.every_ms is None and node.retention_ms is None
            plain = node.window is None or (isinstance(node.window, Period) and not node.of_changes)
            has_kernel = _comes_and_goes if node.of_changes else _runs_compiled
            compiled = at_once and plain and all(map(has_kernel, node.aggregates))
            return Path.COMPILED if compiled else Path.BY_ROW
        case _:
            return None


def work_of(node: Node) -> str | None:
    """Tell how a node's work is done: compiled, in columns, row by row, and what is done otherwise."""
    match node:
        case Source() | TableSource():
            return None
        case Model():
            return Path.BY_ROW.value
        case Filter(condition=expression) | Promote(rowtime=expression):
            return _but_for(IN_COLUMNS, without_kernel(expression))
        case Project(expressions=expressions):
            names = dict.fromkeys(name for each in expressions for name in without_kernel(each))
            return _but_for(IN_COLUMNS, tuple(names))
        case GroupByPeriod() | GroupByHop() | GroupBySession():
            row_type = node.input.row_type
            slow = [show_aggregate(call, row_type) for call in node.aggregates if not has_accumulator(call)]
            return _but_for(Path.COMPILED.value, slow)
        case WindowsAbreast():
            slow = [
                show_window_call(call, node.input.row_type)
                for each in node.each()
                if path_of(each) is Path.BY_ROW
                for call in each.calls
            ]
            return _but_for(Path.COMPILED.value, slow)
        case _:
            path = path_of(node)
            return (Path.COMPILED if path is None else path).value


IN_COLUMNS = "in columns"


def _but_for(work: str, by_row: Sequence[str]) -> str:
    return f"{work}, but {', '.join(by_row)} {Path.BY_ROW.value}" if by_row else work


def has_accumulator(call: AggregateCall) -> bool:
    """Tell whether an aggregate over groups that only grow runs compiled."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            # Texts are told apart by their codes, wide decimals by themselves.
            return not call.distinct or of is None or of.is_variable_width or of.dtype != np.dtype(object)
        case "SUM" | "AVG" | "MIN" | "MAX" | "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return of is not None and of.dtype != np.dtype(object)
        case _:
            return False


MOST_RUNNING_PLACES = 64
"""So many values a partition are kept for NTH_VALUE and LAG by a compiled frame without a start, at most."""


MOST_PARTS = 1 << 20
"""Percentiles of fractions that have a greater denominator go row by row."""


def _has_kernel(call: WindowCall, frame: Frame) -> bool:
    """Tell whether a window's call runs compiled."""
    endless = frame.start.unit is EdgeUnit.UNBOUNDED
    # Text and wide decimals are Python objects: they can be moved and told apart, but not added or ordered.
    plain = call.argument is not None and call.argument.type.dtype != np.dtype(object)
    match call.function:
        case "COUNT" | "ROW_NUMBER":
            return True
        case "RANK" | "DENSE_RANK":
            return endless and frame.end == CURRENT_ROW
        case "SUM" | "AVG" | "MIN" | "MAX" | "EVERY" | "BOOL_AND" | "BOOL_OR":
            return plain
        case "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return plain
        case "MEDIAN" | "PERCENTILE_CONT" | "PERCENTILE_DISC":
            # Of zeros with both signs DISTINCT keeps the first one.
            signed = call.distinct and call.argument is not None and call.argument.type.is_float
            few = call.fraction is not None and call.fraction.denominator <= MOST_PARTS
            return plain and few and not signed
        case "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE" | "LAG" | "LEAD" | "ANY_VALUE":
            return not endless or call.number <= MOST_RUNNING_PLACES
        case _:
            return False


def _runs_compiled(call: AggregateCall) -> bool:
    """Tell whether a compiled aggregate gives its result after every row: one that is no Python object."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            return not call.distinct
        case "SUM" if of is not None:
            return not call.distinct and (of.is_integer or of.is_float)
        case "AVG" if of is not None:
            return not call.distinct and of.is_float
        case "MIN" | "MAX" if of is not None:
            return of.dtype != np.dtype(object) and not of.is_variable_width
        case _:
            return False


def _comes_and_goes(call: AggregateCall) -> bool:
    """Tell whether a compiled aggregate lets values go again: numbers that are no Python objects."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            return not call.distinct
        case "SUM" | "AVG" | "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            plain = not call.distinct
        case "MIN" | "MAX":
            plain = True
        case _:
            plain = False
    return plain and of is not None and of.dtype != np.dtype(object) and not of.is_variable_width


def _kept(row_type: RowType, key: tuple[int, ...]) -> list[bool]:
    """Tell of each key field whether its values are Python objects."""
    kinds = [row_type[index].type for index in key]
    return [kind.dtype == np.dtype(object) and not kind.is_variable_width for kind in kinds]
