"""What the operator of a node keeps, and what bounds it; EXPLAIN shows it.

Rows that only wait for a rowtime bound come on top of it: the limits of the intake say how many may.
"""

from __future__ import annotations

from rowtide.plan.frames import EdgeUnit, Frame
from rowtide.plan.limits import FOR_EVER_MS, is_limited, is_one_small_group
from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    AsOfJoin,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Merge,
    Node,
    Sort,
    SortInPeriod,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.show import show_interval
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.plan.walk import only_comes
from rowtide.rows.types import RowType
from rowtide.rowtime.period import Hop, Period, Session


def kept_by(node: Node) -> str | None:
    """Tell what the operator of a node keeps; None: it remembers no rows."""
    match node:
        case Sort(within_ms=0):
            return "the highest rowtime"
        case Sort(within_ms=within):
            return f"rows up to {show_interval(within)} below the highest rowtime"
        case Merge():
            return "rows that wait for another input or partition"
        case GroupByPeriod(keys=keys):
            return f"{_groups(node.input.row_type, keys)} and period that is not over"
        case GroupByHop(hop=hop, keys=keys):
            return f"{_groups(node.input.row_type, keys)} and window that is not over: {_windows(hop)}"
        case GroupBySession(keys=keys):
            return f"{_groups(node.input.row_type, keys)} and session that is not over"
        case GroupChanges():
            return _changes(node)
        case WindowAggregate():
            return _frame(node)
        case WindowsAbreast():
            return "; ".join(dict.fromkeys(map(_frame, node.each())))
        case SortInPeriod(limit=None):
            return "rows of periods that are not over"
        case SortInPeriod(limit=limit, offset=offset):
            return f"the first {(limit or 0) + offset} rows of each period that is not over"
        case KeyedTable(key=key, row_type=row_type):
            return f"a row for each {_names(row_type, key)}" if key else "every row"
        case AsOfJoin():
            return "the rows of the table, as of the rowtime that the stream has reached"
        case WindowJoin():
            return _sides(node)
        case TableJoin():
            return "the rows of both tables" + ("" if node.limited else ", for ever")
        case TopChanges(partition=partition, limit=int() as limit) if only_comes(node.input):
            of_each = f" of each {_names(node.row_type, partition)}" if partition else ""
            return f"the first {limit + node.offset} rows{of_each}" + (", for ever" if partition else "")
        case TopChanges():
            return "the rows of the table" + ("" if is_limited(node.input) else ", for ever")
        case Model():
            return "what the tables of the model hold"
        case _:
            return None


def _names(row_type: RowType, fields: tuple[int, ...]) -> str:
    return ", ".join(row_type[index].name for index in fields)


def _groups(row_type: RowType, keys: tuple[int, ...]) -> str:
    return f"a group for each {_names(row_type, keys)}" if keys else "a group for each"


def _windows(hop: Hop) -> str:
    count = -(-hop.size_ms // hop.slide_ms)
    return f"{count} at a time"


def _changes(node: GroupChanges) -> str:
    names = _names(node.input.row_type, node.keys)
    match node.window:
        case None if not names:
            text = "one group"
        case None:
            text = f"a group for each {names}"
        case Period():
            text = f"{_groups(node.input.row_type, node.keys)} and period that is not over"
        case Hop() as hop:
            text = f"{_groups(node.input.row_type, node.keys)} and window that is not over: {_windows(hop)}"
        case Session():
            text = f"{_groups(node.input.row_type, node.keys)} and session that is not over"
    if node.of_changes and not is_one_small_group(node):
        text += ", with the values of its rows"
    if node.retention_ms is not None and node.retention_ms < FOR_EVER_MS:
        return f"{text}, until nothing has changed it for {show_interval(node.retention_ms)}"
    if node.window is None and names and not (node.of_changes and is_limited(node.input)):
        return f"{text}, for ever"
    return text


def _frame(node: WindowAggregate) -> str:
    each = f" of each {_names(node.input.row_type, node.partition)}" if node.partition else ""
    start, end = node.frame.start, node.frame.end
    over = "" if node.snap is None else ", until its period is over"
    match start.unit:
        case EdgeUnit.UNBOUNDED if _runs(node.frame):
            return f"running results{each}{over}"
        case EdgeUnit.UNBOUNDED:
            return f"running results{each}, and rows that are not yet in them{over}"
        case EdgeUnit.ROWS if end.unit is EdgeUnit.RANGE:
            before = f", and {-start.offset} before them," if start.offset < 0 else ""
            return f"rows of {show_interval(end.offset)}{before}{each}{over}"
        case EdgeUnit.ROWS:
            count = max(end.offset if end.unit is EdgeUnit.ROWS else 0, 0) - min(start.offset, 0) + 1
            return f"the last {count} rows{each}{over}"
        case EdgeUnit.RANGE:
            length = max(end.offset if end.unit is EdgeUnit.RANGE else 0, 0) - min(start.offset, 0)
            return f"rows of {show_interval(length)}{each}{over}"


def _runs(frame: Frame) -> bool:
    return not frame.waits and frame.end.offset == 0


def _sides(node: WindowJoin) -> str:
    if node.retained and node.high_ms == FOR_EVER_MS:
        return "the rows of both sides, for ever"
    left = f"left rows for {show_interval(max(node.high_ms, 0))}"
    right = f"right rows for {show_interval(max(-node.low_ms, 0))}"
    return f"{left}, {right}"
