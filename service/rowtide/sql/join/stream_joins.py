"""Joins of two streams: windows on their rows, keys, and the rest of ON.

See docs/sql/semantics.md#joins-of-two-streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.limits import FOR_EVER_MS
from rowtide.plan.nodes import JoinKind, JoinTime, Node, WindowJoin
from rowtide.rows.types import BIGINT, BOOLEAN, TIMESTAMP, Field, RowType
from rowtide.rowtime.period import Period, PeriodEdge, moves
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.scope import ROWTIME, Binding, NameScope
from rowtide.sql.grammar.syntax import Join, RangeWindow
from rowtide.sql.group.group_windows import period_call
from rowtide.sql.join.table_joins import WithKeys
from rowtide.sql.join.time_limits import TimeLimits, limits_of
from rowtide.sql.relations.guards import KeyPair, keys_and_others
from rowtide.sql.relations.relations import conjunction, project, shifted, unique_names

EXACT = Period(PeriodEdge.EXACT)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: its node, its names, its window.

    ``order`` is the period to which its window rounds the time of a row; EXACT: the rowtime itself.
    """

    node: Node
    bindings: tuple[Binding, ...]
    window: RangeWindow | None
    order: Period = EXACT


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """The meaning of the windows of a join: the allowed times from left to right row, and the rowtime of a pair."""

    low_ms: int
    high_ms: int
    time: JoinTime
    left_delay_ms: int
    right_delay_ms: int


def span_of(left: RangeWindow | None, right: RangeWindow | None) -> WindowSpan:
    """Return the meaning of the windows; at least one side has one.

    A window limits the time from the other side's row to the row on its side.
    """
    left_delay = 0 if left is None else max(0, -left.start_ms)
    right_delay = 0 if right is None else max(0, -right.start_ms)
    if left is None and right is not None:
        return WindowSpan(right.start_ms, right.end_ms, JoinTime.LEFT, 0, right_delay)
    if right is None and left is not None:
        return WindowSpan(-left.end_ms, -left.start_ms, JoinTime.RIGHT, left_delay, 0)
    if left is None or right is None:
        raise ValueError("a join of two streams needs a window")
    low = min(right.start_ms, -left.end_ms)
    high = max(right.end_ms, -left.start_ms)
    return WindowSpan(low, high, JoinTime.LATER, left_delay, right_delay)


def with_rowtime(side: Side, relation: str) -> Side:
    """Return a side with a field for its own ROWTIME, which is not that of the joined row."""
    if not any(binding.has_rowtime and binding.rowtime_field is None for binding in side.bindings):
        return side
    row_type = side.node.row_type
    name = unique_names([*row_type.names, f"${ROWTIME}"])[-1]
    expressions: tuple[Expr, ...] = tuple(FieldRef(index, field.type) for index, field in enumerate(row_type))
    expressions += (RowtimeRef(),)
    fields = (*row_type, Field(name, TIMESTAMP, nullable=False))
    node = project(relation, side.node, expressions, RowType(fields))
    bindings = tuple(
        replace(binding, rowtime_field=len(row_type))
        if binding.has_rowtime and binding.rowtime_field is None
        else binding
        for binding in side.bindings
    )
    return replace(side, node=node, bindings=bindings)


def moved(bindings: tuple[Binding, ...], by: int, *, outer: bool) -> Iterator[Binding]:
    """Yield bindings whose fields are moved ``by`` positions; ``outer``: all can be NULL."""
    for binding in bindings:
        row_type = binding.row_type
        if outer:
            row_type = RowType(tuple(replace(field, nullable=True) for field in row_type))
        at = None if binding.rowtime_field is None else binding.rowtime_field + by
        yield replace(binding, start=binding.start + by, row_type=row_type, rowtime_field=at)


def window_join(
    relation: str,
    join: Join,
    sides: tuple[Side, Side],
    conditions_of: Callable[[NameScope], Iterator[Expr]],
    key_pair: KeyPair,
    with_keys: WithKeys,
    retention: Retention | None = None,
) -> tuple[Node, NameScope]:
    """Plan a join of two streams; return its node and its scope. ``conditions_of`` plans the conjuncts of ON.

    Raises:
      StatementError: no side has a window, and no RETENTION is declared.
    """
    left, right = (with_rowtime(side, relation) for side in sides)
    kind = JoinKind(join.kind)
    width = len(left.node.row_type)
    bindings = (
        *moved(left.bindings, 0, outer=kind.keeps_right),
        *moved(right.bindings, width, outer=kind.keeps_left),
    )
    conditions = list(conditions_of(NameScope(bindings)))
    if left.window is None and right.window is None:
        longest = None if retention is None else retention.length_ms
        limits = limits_of(conditions, left.node, right.node, longest, join.place)
        if join.within is not None:
            limits = TimeLimits(join.within.start_ms, join.within.end_ms, conditions)
        if limits is not None:
            conditions = limits.others
            left, right = map(_windowed, (left, right), limits.windows(join.place))
    whole = left.window is None and right.window is None
    span = _whole_span(kind, retention, join.place) if whole else span_of(left.window, right.window)
    keys, others = keys_and_others(conditions, width, key_pair, guarded=(True, True))
    left_node, left_key = with_keys(left.node, [key for key, _ in keys], kept=kind.keeps_left)
    right_node, right_key = with_keys(right.node, [key for _, key in keys], kept=kind.keeps_right)
    added = len(left_node.row_type) - width
    others += _either_window(left, right, width)
    if (left.order, right.order) != (EXACT, EXACT):
        others += _rounded_span(span, left, right, width)
        span = _widened(span, left.order, right.order)
    fields = [
        *(replace(field, nullable=field.nullable or kind.keeps_right) for field in left_node.row_type),
        *(replace(field, nullable=field.nullable or kind.keeps_left) for field in right_node.row_type),
    ]
    names = unique_names([field.name for field in fields])
    row_type = RowType(tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True)))
    condition = conjunction([shifted(each, width, added) for each in others])
    node = WindowJoin(
        relation,
        left_node,
        right_node,
        left_key,
        right_key,
        span.low_ms,
        span.high_ms,
        span.time,
        kind,
        row_type,
        condition,
        span.left_delay_ms,
        span.right_delay_ms,
        whole,
    )
    count = len(left.bindings)
    firsts = _with_time(
        sides[0], bindings[:count], of_pair=span.time is JoinTime.LEFT and not kind.keeps_right
    )
    rest = moved(bindings[count:], added, outer=False)
    of_right = span.time is JoinTime.RIGHT and not kind.keeps_left
    return node, NameScope((*firsts, *_with_time(sides[1], tuple(rest), of_pair=of_right)))


def _windowed(side: Side, window: RangeWindow) -> Side:
    return replace(side, window=window)


def _with_time(side: Side, bindings: tuple[Binding, ...], of_pair: bool) -> Iterator[Binding]:
    """Yield the bindings of a side; ``of_pair``: the ROWTIME of a joined row is that of this side's row."""
    for before, binding in zip(side.bindings, bindings, strict=True):
        own = of_pair and before.has_rowtime and before.rowtime_field is None
        yield replace(binding, rowtime_field=None) if own else binding


def _whole_span(kind: JoinKind, retention: Retention | None, span: SourceSpan) -> WindowSpan:
    """Return the span of two streams without windows: rows are kept for the RETENTION of the view or pump.

    It is the length of a window before and after each row, so a row without a match has the time at which it is
    dropped, and holds no match back.

    Raises:
      StatementError: RETENTION is not declared, or a row without a match would wait forever.
    """
    if retention is None:
        raise StatementError(
            "two streams are joined without a window: all their rows would have to be kept forever",
            span=span,
            hint="Write how far apart the rows may be: JOIN s OVER (RANGE INTERVAL '10' MINUTE FOLLOWING) ON .., or "
            "two limits, ON .. AND b.ROWTIME BETWEEN a.ROWTIME AND a.ROWTIME + INTERVAL '10' MINUTE; "
            "or for how long rows are kept: CREATE VIEW name OPTIONS (RETENTION '1 DAY') AS ..",
        )
    if retention.length_ms is None and kind is not JoinKind.INNER:
        raise StatementError(
            "a row without a match would wait forever: streams with RETENTION 'UNBOUNDED' need an inner join",
            span=span,
            hint="RETENTION '1 DAY' drops it after a day.",
        )
    length = FOR_EVER_MS if retention.length_ms is None else retention.length_ms
    delay = 0 if kind is JoinKind.INNER else length
    return WindowSpan(-length, length, JoinTime.LATER, delay, delay)


def _rounded_span(span: WindowSpan, left: Side, right: Side, width: int) -> list[Expr]:
    """Return the conditions of the windows on the rounded rowtimes of two rows."""
    return _between(_distance(left, right, width), span.low_ms, span.high_ms)


def _either_window(left: Side, right: Side, width: int) -> list[Expr]:
    """Return the condition that a pair is in one of two windows that leave a gap between them."""
    if left.window is None or right.window is None:
        return []
    ranges = (-left.window.end_ms, -left.window.start_ms), (right.window.start_ms, right.window.end_ms)
    (_, first_end), (second_start, _) = sorted(ranges)
    if second_start <= first_end + 1:
        return []
    distance = _distance(left, right, width)
    within = [Call("AND", tuple(_between(distance, low, high)), BOOLEAN) for low, high in ranges]
    return [Call("OR", tuple(within), BOOLEAN)]


def _distance(left: Side, right: Side, width: int) -> Expr:
    """Return the time (ms) from the left row to the right row, rounded as their windows do."""
    times = []
    for side, start in ((left, 0), (right, width)):
        own = next(binding.rowtime_field for binding in side.bindings if binding.rowtime_field is not None)
        time: Expr = FieldRef(own + start, TIMESTAMP)
        times.append(time if side.order == EXACT else period_call(side.order, time))
    return Call("TSDIFF", tuple(times), BIGINT)


def _between(distance: Expr, low: int, high: int) -> list[Expr]:
    return [
        Call(">=", (distance, Literal(low, BIGINT)), BOOLEAN),
        Call("<=", (distance, Literal(high, BIGINT)), BOOLEAN),
    ]


def _widened(span: WindowSpan, left: Period, right: Period) -> WindowSpan:
    """Return a span that contains all rows whose rounded rowtimes are in ``span``."""
    (left_before, left_after), (right_before, right_after) = moves(left), moves(right)
    return replace(
        span, low_ms=span.low_ms - right_before - left_after, high_ms=span.high_ms + right_after + left_before
    )
