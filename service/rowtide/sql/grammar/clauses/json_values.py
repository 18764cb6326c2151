"""The grammar of functions of JSON that have clauses of their own: JSON_VALUE, JSON_OBJECT, JSON_ARRAY and aggregates.

``JSON_ARRAYAGG(x)`` is read as the aggregate of ``JSON_ARRAY(x)``, and ``JSON_OBJECTAGG(k VALUE x)`` as that of
``JSON_OBJECT(k VALUE x)``.
"""

from __future__ import annotations

from typing import Protocol

from rowtide.expr.functions.text.json_making import ARRAY, OBJECT, OTHERWISE
from rowtide.rows.types import JSON, Type
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.syntax import Cast, Expression, FunctionCall

AGGREGATES = {"JSON_ARRAYAGG": ARRAY, "JSON_OBJECTAGG": OBJECT}
"""The aggregates, and the function of one value of each."""


class JsonGrammar(Protocol):
    """The parts of these functions."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def type(self) -> Type:
        """Read the name of a type."""


def json_value(grammar: JsonGrammar, token: Token) -> Expression:
    """Read ``x, path [RETURNING type])`` after ``JSON_VALUE(``: the text is cast to the type."""
    cursor = grammar.cursor
    args = cursor.comma_list(grammar.expression)
    target = grammar.type() if cursor.accept("RETURNING") else None
    if cursor.is_word("NULL", "ON") or cursor.is_word("ERROR", "ON") or cursor.is_word("DEFAULT"):
        raise cursor.unsupported(
            "ON EMPTY and ON ERROR are",
            hint="What is not there is NULL: write COALESCE(JSON_VALUE(..), ..).",
        )
    cursor.expect_symbol(")")
    value = FunctionCall("JSON_VALUE", args, cursor.span(token))
    return value if target is None else Cast(value, target, cursor.span(token))


def made_json(grammar: JsonGrammar, token: Token, name: str) -> Expression:
    """Read what follows ``JSON_OBJECT(`` or ``JSON_ARRAY(``, to the parenthesis."""
    cursor = grammar.cursor
    args: list[Expression] = []
    if not cursor.is_symbol(")") and not _is_clause(cursor):
        if name == OBJECT:
            args += [part for member in cursor.comma_list(lambda: _member(grammar)) for part in member]
        else:
            args += cursor.comma_list(lambda: _value(grammar))
    name = _on_null(cursor, name)
    if cursor.accept("WITHOUT"):
        cursor.expect("UNIQUE")
        cursor.accept("KEYS")
    target = grammar.type() if cursor.accept("RETURNING") else None
    if target is not None and cursor.accept("FORMAT"):
        cursor.expect("JSON")
    cursor.expect_symbol(")")
    made = FunctionCall(name, tuple(args), cursor.span(token))
    return made if target in (None, JSON) else Cast(made, target or JSON, cursor.span(token))


def aggregated_json(grammar: JsonGrammar, token: Token, name: str) -> Expression:
    """Read the argument of ``JSON_ARRAYAGG(`` or ``JSON_OBJECTAGG(`` with its clauses, without the parenthesis."""
    cursor = grammar.cursor
    function = AGGREGATES[name]
    args = _member(grammar) if function == OBJECT else (_value(grammar),)
    if cursor.is_word("ORDER"):
        raise cursor.unsupported(
            f"ORDER BY inside of {name} is", hint="Write CAST(ARRAY_AGG(x ORDER BY x) AS JSON)."
        )
    return FunctionCall(_on_null(cursor, function), args, cursor.span(token))


def _is_clause(cursor: Cursor) -> bool:
    return any(cursor.is_word(word, "ON", "NULL") for word in ("NULL", "ABSENT")) or cursor.is_word(
        "RETURNING"
    )


def _on_null(cursor: Cursor, name: str) -> str:
    """Read ``NULL ON NULL`` or ``ABSENT ON NULL``; return the name of the function that does this."""
    if cursor.accept("NULL", "ON", "NULL"):
        return name if name == OBJECT else OTHERWISE[name]
    if cursor.accept("ABSENT", "ON", "NULL"):
        return OTHERWISE[name] if name == OBJECT else name
    return name


def _value(grammar: JsonGrammar) -> Expression:
    """Read ``value [FORMAT JSON]``."""
    cursor = grammar.cursor
    first = cursor.current
    value = grammar.expression()
    if not cursor.accept("FORMAT"):
        return value
    cursor.expect("JSON")
    return Cast(value, JSON, cursor.span(first))


def _member(grammar: JsonGrammar) -> tuple[Expression, Expression]:
    """Read ``[KEY] name VALUE value`` or ``name: value``."""
    cursor = grammar.cursor
    following = cursor.ahead(1)
    if cursor.is_word("KEY") and following.kind is not TokenKind.SYMBOL and following.text != "VALUE":
        cursor.advance()
    name = grammar.expression()
    if not cursor.accept_symbol(":") and not cursor.accept("VALUE"):
        raise cursor.unexpected('"VALUE"', hint="A member of an object is written 'name' VALUE x.")
    return name, _value(grammar)
