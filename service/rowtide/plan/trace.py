"""Where a field comes from: through the nodes of a plan, down to ROWTIME, a period or a table's key."""

from __future__ import annotations

from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import (
    AsOfJoin,
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    SortInPeriod,
    WindowAggregate,
    WindowsAbreast,
)
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import NumberedChanges, TopChanges


def rowtime_field(node: Node) -> int | None:
    """Give the first field of ``node`` that always holds its row's ROWTIME or its group's period.

    ``replay --from --to`` compares by it (sql-decisions 28).
    """
    return next((index for index in range(len(node.row_type)) if _is_fed(node, index)), None)


def key_fields(node: Node) -> tuple[int, ...] | None:
    """Give the fields of a changelog that hold the primary key of its table; None if it lost them."""
    match node:
        case KeyedTable(key=key):
            return key or None
        case TableJoin(identity=identity):
            return identity
        case GroupChanges(window=window, keys=keys):
            return tuple(range(len(keys) + (window is not None)))
        case NumberedChanges(partition=partition, row_type=row_type):
            return (*partition, len(row_type) - 1)
        case TopChanges(partition=partition, limit=1) if partition:
            return partition
        case Filter(input=below) | Sort(input=below) | TopChanges(input=below):
            return key_fields(below)
        case Merge(sources=sources, of_changes=True):
            return _numbered_keys(sources)
        case Project(input=below, expressions=expressions):
            known = key_fields(below)
            if known is None:
                return None
            merged = _merged_keys(expressions, below)
            if merged is not None:
                return merged
            held = [
                next((at for at, each in enumerate(expressions) if _is_field(each, index)), None)
                for index in known
            ]
            found = tuple(at for at in held if at is not None)
            return found if len(found) == len(known) else None
        case _:
            return None


def _numbered_keys(sources: tuple[Node, ...]) -> tuple[int, ...] | None:
    """Give the key that all sources have, and the field in which each has a constant of its own."""
    keys = {key_fields(each) for each in sources}
    if len(keys) != 1 or None in keys or not all(isinstance(each, Project) for each in sources):
        return None
    columns = zip(*(each.expressions for each in sources if isinstance(each, Project)), strict=True)
    for at, column in enumerate(columns):
        if all(isinstance(each, Literal) for each in column) and len(set(column)) == len(column):
            return (*(next(iter(keys)) or ()), at)
    return None


def _merged_keys(expressions: tuple[Expr, ...], node: Node) -> tuple[int, ...] | None:
    """Give the expressions that give the key of whichever side of a join has one: COALESCE of the two."""
    while isinstance(node, Filter):
        node = node.input
    if not isinstance(node, TableJoin) or not node.paired or node.condition is not None:
        return None
    found = []
    for one, other in node.paired:
        fields = [FieldRef(at, node.row_type[at].type) for at in (one, other)]
        both = (Call("COALESCE", tuple(each), each[0].type) for each in (fields, fields[::-1]))
        places = [expressions.index(each) for each in both if each in expressions]
        if not places:
            return None
        found.append(places[0])
    return tuple(found)


def _is_field(expr: Expr, index: int) -> bool:
    return isinstance(expr, FieldRef) and expr.index == index


def _is_fed(node: Node, index: int) -> bool:
    match node:
        case Project(input=below, expressions=expressions):
            return _expression_is_fed(expressions[index], below)
        case Filter(input=below) | Sort(input=below) | SortInPeriod(input=below) | KeyedTable(input=below):
            return _is_fed(below, index)
        case Promote(rowtime=rowtime):
            # Below a promotion ROWTIME is another one: only the promoted field itself is this one.
            return rowtime == FieldRef(index, node.row_type[index].type)
        case Merge(sources=sources):
            return all(_is_fed(each, index) for each in sources)
        case GroupByPeriod() | GroupByHop() | GroupBySession():
            return index == 0
        case GroupChanges(window=window):
            return window is not None and index == 0
        case WindowAggregate(input=below) | WindowsAbreast(input=below):
            return index < len(below.row_type) and _is_fed(below, index)
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
