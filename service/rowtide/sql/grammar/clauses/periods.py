"""The grammar of predicates of periods: ``PERIOD (x, y) OVERLAPS PERIOD (z, w)``.

A period is ``[PERIOD] (start, end)``; any other operand is a point. The predicate becomes a call of its function
over four times, with one point used twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowtide.expr.functions.times.periods import RELATIONS, function_name
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token
from rowtide.sql.grammar.syntax import Expression, FunctionCall

_BEFORE = ("STRICTLY", "IMMEDIATELY")
_PREDICATES = tuple(name for name in RELATIONS if " " not in name)
_LIST = f"{', '.join(_PREDICATES[:-1])} or {_PREDICATES[-1]}"


class PeriodGrammar(Protocol):
    """The parts of a predicate of periods."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def operand(self) -> Expression:
        """Read one operand of a comparison."""


def _words_ahead(cursor: Cursor) -> int:
    """Return the number of words of a predicate that come next; 0 if none does."""
    adverb = any(map(cursor.is_word, _BEFORE))
    return 1 + adverb if any(cursor.is_word(word, ahead=adverb) for word in _PREDICATES) else 0


def is_predicate(cursor: Cursor) -> bool:
    """Return whether a predicate and a period come next, as they do after a point."""
    words = _words_ahead(cursor)
    if words == 0:
        return False
    behind = 1 if cursor.is_word("PERIOD", ahead=words) else 0
    return cursor.ahead(words + behind).text == "("


def is_period(cursor: Cursor) -> bool:
    """Return whether ``PERIOD (`` comes next."""
    return cursor.is_word("PERIOD") and cursor.ahead(1).text == "("


def follows_a_row(cursor: Cursor) -> bool:
    """Return whether the row of values before is the left period of a predicate."""
    return _words_ahead(cursor) > 0


def predicate(grammar: PeriodGrammar, left: Sequence[Expression], first: Token) -> Expression:
    """Read a predicate and its right operand; ``left`` are the times of the left one, or one point."""
    cursor = grammar.cursor
    token = cursor.current
    count = _words_ahead(cursor)
    if count == 0:
        raise cursor.unexpected(
            _LIST, hint="PERIOD (start, end) OVERLAPS PERIOD (x, y) compares two periods."
        )
    name = " ".join(cursor.advance().text for _ in range(count))
    if name not in RELATIONS:
        adverb, _, verb = name.partition(" ")
        fitting = [each.removeprefix(f"{adverb} ") for each in RELATIONS if each.startswith(f"{adverb} ")]
        raise cursor.fail(
            f"{verb} does not take {adverb}",
            token=token,
            hint=f"{adverb} is a word before {', '.join(fitting[:-1])} and {fitting[-1]}.",
        )
    right = _period(grammar) if is_period(cursor) or cursor.is_symbol("(") else (grammar.operand(),)
    times = [*_edges(cursor, left, first), *_edges(cursor, right, token)]
    return FunctionCall(function_name(name), tuple(times), cursor.span(first))


def period(grammar: PeriodGrammar) -> Expression:
    """Read ``PERIOD (start, end)`` and the predicate after it."""
    first = grammar.cursor.current
    return predicate(grammar, _period(grammar), first)


def _period(grammar: PeriodGrammar) -> tuple[Expression, ...]:
    """Read ``[PERIOD] (start, end)``, or a point in parentheses."""
    grammar.cursor.accept("PERIOD")
    return grammar.cursor.wrapped(grammar.expression)


def _edges(cursor: Cursor, times: Sequence[Expression], first: Token) -> tuple[Expression, Expression]:
    if len(times) == 1:
        return times[0], times[0]
    if len(times) != 2:
        raise cursor.fail(
            f"a period has two times, this one has {len(times)}",
            token=first,
            hint="Write PERIOD (start, end). A single time is a point.",
        )
    return times[0], times[1]
