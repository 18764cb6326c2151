"""Where a field comes from: which field of a target ROWTIME or a group's period feeds (sql-decisions 28)."""

from __future__ import annotations

from rowtide.expr.tree import Expr, FieldRef, RowtimeRef
from rowtide.plan.nodes import (
    AsOfJoin,
    Filter,
    GroupByPeriod,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
)


def rowtime_field(node: Node) -> int | None:
    """Give the first field of ``node`` that always holds its row's ROWTIME or its group's period."""
    return next((index for index in range(len(node.row_type)) if _is_fed(node, index)), None)


def _is_fed(node: Node, index: int) -> bool:
    match node:
        case Project(input=below, expressions=expressions):
            return _expression_is_fed(expressions[index], below)
        case Filter(input=below) | Sort(input=below) | KeyedTable(input=below):
            return _is_fed(below, index)
        case Promote(rowtime=rowtime):
            # Below a promotion ROWTIME is another one: only the promoted field itself is this one.
            return rowtime == FieldRef(index, node.row_type[index].type)
        case Merge(sources=sources):
            return all(_is_fed(each, index) for each in sources)
        case GroupByPeriod():
            return index == 0
        case AsOfJoin(stream=stream):
            return index < len(stream.row_type) and _is_fed(stream, index)
        case _:
            return False


def _expression_is_fed(expr: Expr, below: Node) -> bool:
    match expr:
        case RowtimeRef():
            return True
        case FieldRef(index=index):
            return _is_fed(below, index)
        case _:
            return False
