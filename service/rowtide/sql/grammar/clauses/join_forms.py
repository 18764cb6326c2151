"""Forms of joins of other systems: ``ASOF JOIN`` and ksqlDB's ``WITHIN``. See docs/sql/joins.md."""

from __future__ import annotations

from typing import Protocol

from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import TokenKind
from rowtide.sql.grammar.syntax import LENGTH_UNITS, Expression, RangeWindow

_UNITS = {"MILLISECOND": 1, **LENGTH_UNITS}
_LENGTHS = {name: length for unit, length in _UNITS.items() for name in (unit, f"{unit}S")}
_SIDES = ("LEFT", "INNER")


class ConditionGrammar(Protocol):
    """The parts of a condition."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""


def is_as_of(cursor: Cursor) -> bool:
    """Return whether ``ASOF JOIN`` comes next, or the same with LEFT or INNER before or behind ASOF."""
    at = 0 if cursor.is_word("ASOF") else 1
    if at and not any(map(cursor.is_word, _SIDES)):
        return False
    behind = at == 0 and any(cursor.is_word(side, ahead=1) for side in _SIDES)
    return cursor.is_word("ASOF", ahead=at) and cursor.is_word("JOIN", ahead=at + 1 + behind)


def as_of_kind(cursor: Cursor) -> str | None:
    """Take ASOF, and LEFT or INNER beside it; return the kind."""
    before = cursor.one_of(*_SIDES)
    cursor.expect("ASOF")
    return before or cursor.one_of(*_SIDES)


def match_condition(grammar: ConditionGrammar) -> Expression | None:
    """Read Snowflake's ``MATCH_CONDITION (left.time >= right.time)`` if it follows."""
    cursor = grammar.cursor
    if not (cursor.is_word("MATCH_CONDITION") and cursor.ahead(1).text == "("):
        return None
    cursor.advance()
    cursor.expect_symbol("(")
    condition = grammar.expression()
    cursor.expect_symbol(")")
    return condition


def within(cursor: Cursor) -> RangeWindow | None:
    """Read ``WITHIN 1 HOUR`` or ``WITHIN (1 HOUR, 2 HOURS)`` if it follows: before, and after, the left row."""
    first = cursor.current
    if not cursor.accept("WITHIN"):
        return None
    if cursor.accept_symbol("("):
        before = _length(cursor)
        after = _length(cursor) if cursor.accept_symbol(",") else before
        cursor.expect_symbol(")")
    else:
        before = after = _length(cursor)
    if cursor.is_word("GRACE", "PERIOD"):
        raise cursor.unsupported(
            "GRACE PERIOD is",
            hint="ORDER BY at WITHIN INTERVAL '10' MINUTE in the view of the stream waits for late rows.",
        )
    return RangeWindow(-before, after, cursor.span(first))


def _length(cursor: Cursor) -> int:
    token = cursor.current
    if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 9:
        raise cursor.unexpected(
            "a number of units", hint="Write WITHIN 1 HOUR, or WITHIN (0 SECONDS, 1 HOUR)."
        )
    cursor.advance()
    unit = cursor.one_of(*_LENGTHS)
    if unit is None:
        raise cursor.unexpected("a unit such as HOURS")
    return int(token.text) * _LENGTHS[unit]
