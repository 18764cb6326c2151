"""The grammar of OVER and WINDOW: tokens -> syntax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rowtide.errors import StatementError
from rowtide.plan.frames import CURRENT_ROW, UNBOUNDED_PRECEDING, Edge, EdgeUnit, Frame
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import TokenKind
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import (
    Expression,
    FromItem,
    Join,
    JsonRows,
    Name,
    NamedWindow,
    OrderItem,
    RangeWindow,
    TypedLiteral,
    WindowSpec,
)

MAX_FRAME_ROWS = 10_000_000
"""Maximum rows of a frame, to fit into memory."""


class Grammar(Protocol):
    """The parts of a window."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def interval(self) -> TypedLiteral:
        """Read INTERVAL '..' unit."""

    def order_item(self) -> OrderItem:
        """Read ``expression [ASC | DESC] [NULLS FIRST | NULLS LAST]``."""


def over(grammar: Grammar) -> Name | WindowSpec:
    """Read the name of a window, or a window in parentheses, after OVER."""
    if grammar.cursor.is_symbol("("):
        return _specification(grammar)
    return grammar.cursor.name("the name of a window, or its definition in parentheses")


def named_windows(grammar: Grammar) -> tuple[NamedWindow, ...]:
    """Read ``name AS (..), ...`` after WINDOW."""
    cursor = grammar.cursor

    def named() -> NamedWindow:
        name = cursor.name("the name of a window")
        cursor.expect("AS")
        if not cursor.is_symbol("("):
            raise cursor.unexpected('"("')
        return NamedWindow(name, _specification(grammar))

    return cursor.comma_list(named)


def _specification(grammar: Grammar) -> WindowSpec:
    cursor = grammar.cursor
    first = cursor.expect_symbol("(")
    base = None
    if cursor.is_name() and not any(cursor.is_word(word) for word in ("RANGE", "ROWS", "GROUPS")):
        base = cursor.name("the name of a window")
    partition: tuple[Expression, ...] = ()
    if cursor.accept("PARTITION", "BY"):
        partition = cursor.comma_list(grammar.expression)
    order: Expression | None = None
    sort: tuple[OrderItem, ...] = ()
    if cursor.accept("ORDER", "BY"):
        sort = cursor.comma_list(grammar.order_item)
        if len(sort) == 1 and not sort[0].descending and sort[0].nulls_first is None:
            order, sort = sort[0].expression, ()
    unit = next((each for each in (EdgeUnit.RANGE, EdgeUnit.ROWS) if cursor.is_word(each.value)), None)
    frame = _frame(grammar)
    cursor.expect_symbol(")")
    return WindowSpec(base, partition, order, frame, cursor.span(first), sort, unit)


def _frame(grammar: Grammar) -> Frame | None:
    """Read RANGE or ROWS; return None if neither follows."""
    cursor = grammar.cursor
    if cursor.is_word("GROUPS"):
        raise cursor.unsupported("GROUPS is", hint="RANGE counts time, ROWS counts rows.")
    first = cursor.current
    unit = cursor.one_of("RANGE", "ROWS")
    if unit is None:
        return None
    if cursor.accept("BETWEEN"):
        start = _edge(grammar, EdgeUnit(unit))
        cursor.expect("AND")
        last = cursor.current
        end = _edge(grammar, EdgeUnit(unit), ends=True)
        if end.unit is EdgeUnit.UNBOUNDED:
            raise cursor.fail("UNBOUNDED PRECEDING can only begin a frame", token=last)
    else:
        start, end = _edge(grammar, EdgeUnit(unit)), CURRENT_ROW
        if start.offset > 0:
            start, end = CURRENT_ROW, start
    if cursor.is_word("EXCLUDE"):
        raise cursor.unsupported("EXCLUDE is")
    if start.unit is not EdgeUnit.UNBOUNDED and start.offset > end.offset:
        hint = "The earlier row comes first: BETWEEN 3 PRECEDING AND 1 PRECEDING."
        raise StatementError("the frame ends before it begins", span=cursor.span(first), hint=hint)
    return Frame(start, end)


def _edge(grammar: Grammar, unit: EdgeUnit, *, ends: bool = False) -> Edge:
    """Read one end of a frame. For the last one (``ends``), 0 PRECEDING is the current row."""
    cursor = grammar.cursor
    first = cursor.current
    if cursor.accept("CURRENT", "ROW"):
        return CURRENT_ROW
    if cursor.accept("UNBOUNDED"):
        if cursor.is_word("FOLLOWING"):
            raise cursor.fail(
                "UNBOUNDED FOLLOWING would wait for the end of a stream, and a stream never ends",
                token=first,
                hint="Over a table, a window without ORDER BY is the whole partition.",
            )
        cursor.expect("PRECEDING")
        return UNBOUNDED_PRECEDING
    length = _length_ms(grammar) if unit is EdgeUnit.RANGE else _row_count(grammar)
    if cursor.accept("PRECEDING"):
        return CURRENT_ROW if ends and length == 0 else Edge(unit, -length)
    if cursor.accept("FOLLOWING"):
        return Edge(unit, length)
    raise cursor.unexpected('"PRECEDING" or "FOLLOWING"')


def _length_ms(grammar: Grammar) -> int:
    cursor = grammar.cursor
    if cursor.current.kind is TokenKind.NUMBER:
        raise cursor.fail("RANGE counts time, not rows", hint="Write RANGE INTERVAL '10' MINUTE PRECEDING.")
    length = grammar.interval()
    if length.type.kind.name != "INTERVAL_DAY" or length.value < 0:
        raise StatementError("RANGE takes an interval of days to seconds, not below zero", span=length.place)
    return length.value


def _row_count(grammar: Grammar) -> int:
    cursor = grammar.cursor
    token = cursor.current
    if cursor.is_word("INTERVAL"):
        raise cursor.fail("ROWS counts rows, not time", hint="Write RANGE INTERVAL .. PRECEDING.")
    if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 10:
        raise cursor.unexpected("a number of rows")
    cursor.advance()
    if int(token.text) > MAX_FRAME_ROWS:
        raise cursor.fail(f"a frame has at most {MAX_FRAME_ROWS} rows", token=token)
    return int(token.text)


def with_named_ranges(source: FromItem, windows: Sequence[NamedWindow]) -> FromItem:
    """Return a FROM in which the named windows of relations are replaced by their definitions.

    Raises:
      StatementError: a window does not exist, or is not a time window.
    """
    if isinstance(source, Join):
        left, right = (with_named_ranges(each, windows) for each in (source.left, source.right))
        same = left is source.left and right is source.right
        return source if same else replace(source, left=left, right=right)
    if isinstance(source, JsonRows):
        return replace(source, left=with_named_ranges(source.left, windows))
    window = source.window
    if window is None or window.named is None:
        return source
    found = next((each.window for each in windows if each.name == window.named), None)
    if found is None:
        raise StatementError(
            f'window "{window.named.text}" does not exist',
            span=window.named.place,
            hint=did_you_mean(window.named.text, [each.name.text for each in windows]),
        )
    frame = found.frame
    edges = () if frame is None else (frame.start, frame.end)
    if found.base is not None or found.sort or not edges or any(not _is_in_time(each) for each in edges):
        raise StatementError(
            "a window of a joined relation is RANGE with two edges in time",
            span=window.place,
            hint="Write WINDOW w AS (RANGE INTERVAL '10' MINUTE PRECEDING).",
        )
    start, end = edges
    return replace(source, window=RangeWindow(start.offset, end.offset, window.place, found.order))


def _is_in_time(edge: Edge) -> bool:
    return edge.unit is EdgeUnit.RANGE or edge == CURRENT_ROW
