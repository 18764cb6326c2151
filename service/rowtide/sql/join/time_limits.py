"""How far apart the rows of two streams may be, from conditions on their ROWTIMEs: a window without OVER.

See docs/sql/joins.md#conditions-on-rowtimes.

Both sides of a comparison are sums: so many times the ROWTIME of the left row, so many times that of the right one,
and milliseconds in a range. ``FLOOR(ROWTIME TO MINUTE)`` is ROWTIME less 0 to 59,999 ms, so equal minutes are at
most 59,999 ms apart. A comparison without such a range says exactly what the window says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import JoinTime, Node, WindowJoin
from rowtide.rows.types import INTERVAL_DAY
from rowtide.rowtime.period import moves
from rowtide.sql.grammar.syntax import RangeWindow
from rowtide.sql.group.group_windows import rounded
from rowtide.sql.group.rolled_up import of_rowtime

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The times from a left row to the right rows that it may match, and the conditions that this does not say."""

    low_ms: int
    high_ms: int
    others: list[Expr]

    def windows(self, span: SourceSpan) -> tuple[RangeWindow, RangeWindow]:
        """Return the windows of the left and of the right side that say the same."""
        return RangeWindow(-self.high_ms, -self.low_ms, span), RangeWindow(self.low_ms, self.high_ms, span)


@dataclass(frozen=True, slots=True)
class _Sum:
    """``left`` times the left row's ROWTIME, ``right`` times the right row's, and ``least`` to ``most`` ms."""

    left: int
    right: int
    least: int
    most: int

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(
            self.left + other.left, self.right + other.right, self.least + other.least, self.most + other.most
        )

    def turned(self) -> _Sum:
        return _Sum(-self.left, -self.right, -self.most, -self.least)


_Leaf = Callable[[Expr], _Sum | None]
"""Returns the sum that a field or ROWTIME is."""


def limits_of(
    conditions: Sequence[Expr], left: Node, right: Node, longest_ms: int | None, span: SourceSpan
) -> TimeLimits | None:
    """Return the limits that conditions over the left fields, then the right ones, set; None if they set none.

    No limit is above ``longest_ms``, if that is given.

    Raises:
      StatementError: no two rows are within the limits.
    """
    width = len(left.row_type)

    def leaf(expr: Expr) -> _Sum | None:
        if not isinstance(expr, FieldRef):
            return None
        if expr.index < width:
            return _of_side(left, expr.index, _Sum(1, 0, 0, 0))
        return _of_side(right, expr.index - width, _Sum(0, 1, 0, 0))

    lows: list[int] = []
    highs: list[int] = []
    others: list[Expr] = []
    for each in conditions:
        found = _compared(fold(each), leaf)
        if found is None:
            others.append(each)
            continue
        operator, distance = found
        if operator in ("<", "<=", "="):
            highs.append(-distance.least - (operator == "<"))
        if operator in (">", ">=", "="):
            lows.append(-distance.most + (operator == ">"))
        if distance.least != distance.most:
            others.append(each)
    if not lows or not highs:
        return None
    low, high = max(lows), min(highs)
    if longest_ms is not None:
        low, high = max(low, -longest_ms), min(high, longest_ms)
    if low > high:
        raise StatementError(
            "no two rows are as far apart as the conditions on ROWTIME say: no row would ever match",
            span=span,
            hint="Write b.ROWTIME BETWEEN a.ROWTIME AND a.ROWTIME + INTERVAL '10' MINUTE.",
        )
    return TimeLimits(low, high, others)


def _compared(condition: Expr, leaf: _Leaf) -> tuple[str, _Sum] | None:
    """Return how the time from the left row to the right one, and further ms, compares with zero."""
    if not isinstance(condition, Call) or condition.function not in _TURNED:
        return None
    one, other = (_sum(each, leaf) for each in condition.args)
    if one is None or other is None:
        return None
    difference = one.plus(other.turned())
    match difference.left, difference.right:
        case -1, 1:
            return condition.function, difference
        case 1, -1:
            return _TURNED[condition.function], difference.turned()
        case _:
            return None


def _sum(expr: Expr, leaf: _Leaf) -> _Sum | None:
    """Return the sum that an expression is; None if it is none of ROWTIMEs."""
    match expr:
        case Literal(value=int(value), type=of) if of == INTERVAL_DAY or of.is_integer:
            return _Sum(0, 0, value, value)
        case (
            Call(function="+" | "-" as sign, args=(one, other))
            | Call(function="TSDIFF" as sign, args=(other, one))
        ):
            first, second = _sum(one, leaf), _sum(other, leaf)
            if first is None or second is None:
                return None
            return first.plus(second if sign == "+" else second.turned())
        case Call():
            found = rounded(expr)
            inner = None if found is None else _sum(found[1], leaf)
            if found is None or inner is None:
                return None
            before, after = moves(found[0])
            return inner.plus(_Sum(0, 0, -after, before))
        case _:
            return leaf(expr)


def _of_side(node: Node, index: int, rowtime: _Sum) -> _Sum | None:
    """Return what a field of one side is, whose rows have ``rowtime``."""
    while node.keeps_rows:
        (node,) = node.inputs
    if isinstance(node, WindowJoin):
        return _of_pair(node, index, rowtime)
    written = of_rowtime(FieldRef(index, node.row_type[index].type), node)
    return None if written is None else _sum(written, lambda each: rowtime if each == RowtimeRef() else None)


def _of_pair(join: WindowJoin, index: int, rowtime: _Sum) -> _Sum | None:
    """Return what a field of the rows of a join is, whose two ROWTIMEs are around that of the pair."""
    width = len(join.left.row_type)
    on_left = index < width
    side, delay = (join.left, join.left_delay_ms) if on_left else (join.right, join.right_delay_ms)
    low, high = (-join.high_ms, -join.low_ms) if on_left else (join.low_ms, join.high_ms)
    match join.time, on_left:
        case (JoinTime.LEFT, True) | (JoinTime.RIGHT, False):
            least = most = 0
        case JoinTime.LATER, _:
            least, most = min(low, 0), 0
        case _:
            least, most = low, high
    own = rowtime.plus(_Sum(0, 0, min(least, -delay), most))
    return _of_side(side, index if on_left else index - width, own)
