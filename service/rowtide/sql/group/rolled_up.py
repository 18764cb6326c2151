"""GROUP BY a period of a column that is itself a period: minutes rolled up into hours.

See docs/sql/group-by.md#roll-up-by-the-column-of-a-period.

A column of the query below is written as a function of ROWTIME. The start of a group's period is
``FLOOR(ROWTIME - 1 ms TO MINUTE)``, because ROWTIME is the end. A coarser period of it,
``FLOOR(FLOOR(ROWTIME - 1 ms TO MINUTE) TO HOUR)``, is ``FLOOR(ROWTIME - 1 ms TO HOUR)``: the periods
(start, end] of ``CEIL(ROWTIME TO HOUR)``, named by their start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import Filter, GroupByHop, GroupByPeriod, Merge, Node, Project, Promote, Sort
from rowtide.rows.types import INTERVAL_DAY, TIMESTAMP
from rowtide.rowtime.period import Period, PeriodEdge, refines
from rowtide.sql.group.group_windows import period_call, rounded, start_of_end
from rowtide.sql.relations.relations import substitute

_BEFORE = Call("-", (RowtimeRef(), Literal(1, INTERVAL_DAY)), TIMESTAMP)
"""The last millisecond before ROWTIME."""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """A period of ROWTIME, and the value of the term of GROUP BY over the first field of the group's row."""

    period: Period
    value: Expr


def rolled_up(term: Expr, below: Node) -> RolledUp | None:
    """Return the period of ROWTIME that ``term``, over the rows of ``below``, is; None if it is not one."""
    written = of_rowtime(term, below)
    found = None if written is None or written == term else _period(written)
    if found is None:
        return None
    period, before = found
    name = FieldRef(0, TIMESTAMP)
    if not before:
        return RolledUp(period, name)
    start = period_call(period, Call("-", (name, Literal(1, INTERVAL_DAY)), TIMESTAMP))
    return RolledUp(replace(period, edge=PeriodEdge.CEIL), start)


def _period(expr: Expr) -> tuple[Period, bool] | None:
    """Return the period that an expression over ROWTIME is, and whether it is that of the millisecond before."""
    if expr == RowtimeRef():
        return Period(PeriodEdge.EXACT), False
    found = rounded(expr)
    if found is None:
        return None
    period, of = found
    if of == RowtimeRef():
        return period, False
    if period.edge is not PeriodEdge.FLOOR:
        return None
    if of == _BEFORE:
        return period, True
    inner = _period(of)
    if inner is None or inner[0].edge is not PeriodEdge.FLOOR or not refines(inner[0], period):
        return None
    return period, inner[1]


def of_rowtime(expr: Expr, node: Node) -> Expr | None:
    """Write an expression over the rows of ``node`` as a function of their ROWTIME, if it is one."""
    known: dict[Expr, Expr] = {}
    for each in _fields(expr):
        found = _field(each.index, node)
        if found is None:
            return None
        known[each] = found
    return substitute(expr, known)


def _fields(expr: Expr) -> set[FieldRef]:
    match expr:
        case FieldRef():
            return {expr}
        case Call(args=args):
            return set().union(*map(_fields, args))
        case _:
            return set()


def _field(index: int, node: Node) -> Expr | None:
    match node:
        case Filter(input=below) | Sort(input=below):
            return _field(index, below)
        case Project(input=below, expressions=expressions):
            return of_rowtime(expressions[index], below)
        case Promote():
            promoted = node.holds_rowtime(index) and node.row_type[index].type == TIMESTAMP
            return RowtimeRef() if promoted else None
        case GroupByPeriod(period=window) | GroupByHop(hop=window):
            return start_of_end(window) if index == 0 else None
        case Merge(inputs=inputs):
            found = {_field(index, each) for each in inputs}
            return found.pop() if len(found) == 1 else None
        case _:
            return None
