"""The grammar of functions of JSON that have clauses of their own: JSON_VALUE, JSON_OBJECT, JSON_ARRAY and aggregates.

``JSON_ARRAYAGG(x)`` is read as the aggregate of ``JSON_ARRAY(x)``, and ``JSON_OBJECTAGG(k VALUE x)`` as that of
``JSON_OBJECT(k VALUE x)``.
"""

from __future__ import annotations

from typing import Protocol

from rowtide.errors import SourceSpan
from rowtide.expr.functions.text.json_making import ARRAY, OBJECT, OTHERWISE
from rowtide.expr.functions.text.json_text import JSON_VALUES
from rowtide.rows.types import JSON, VARCHAR, Type
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.syntax import (
    Binary,
    Case,
    Cast,
    Expression,
    FunctionCall,
    IsTest,
    NullLiteral,
    OrderItem,
    Unary,
)

AGGREGATES = {"JSON_ARRAYAGG": ARRAY, "JSON_OBJECTAGG": OBJECT}
"""The aggregates, and the function of one value of each."""


class JsonGrammar(Protocol):
    """The parts of these functions."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def order_item(self) -> OrderItem:
        """Read one term of ORDER BY."""

    def type(self) -> Type:
        """Read the name of a type."""


def json_value(grammar: JsonGrammar, token: Token) -> Expression:
    """Read ``x, path [RETURNING type] [value ON EMPTY] [value ON ERROR])`` after ``JSON_VALUE(``.

    The text is cast to the type. The clauses are written out as the CASE that they mean.
    """
    cursor = grammar.cursor
    args = cursor.comma_list(grammar.expression)
    target = grammar.type() if cursor.accept("RETURNING") else None
    on: dict[str, Expression | None] = {}
    while cursor.is_word("NULL", "ON") or cursor.is_word("ERROR", "ON") or cursor.is_word("DEFAULT"):
        value = _instead(grammar, target or VARCHAR)
        cursor.expect("ON")
        event = next((each for each in ("EMPTY", "ERROR") if each not in on and cursor.accept(each)), None)
        if event is None:
            raise cursor.unexpected("EMPTY or ERROR, each once")
        on[event] = value
    cursor.expect_symbol(")")
    return _with_instead(args, target, on, cursor.span(token))


def _instead(grammar: JsonGrammar, target: Type) -> Expression | None:
    """Read NULL, ERROR or ``DEFAULT value`` before ON; None for ERROR."""
    cursor = grammar.cursor
    first = cursor.current
    if cursor.accept("ERROR"):
        return None
    if cursor.accept("NULL"):
        return Cast(NullLiteral(cursor.span(first)), target, cursor.span(first))
    cursor.expect("DEFAULT")
    return Cast(grammar.expression(), target, cursor.span(first))


def _with_instead(
    args: tuple[Expression, ...], target: Type | None, on: dict[str, Expression | None], span: SourceSpan
) -> Expression:
    """Return JSON_VALUE with what is there instead of a value that is EMPTY, or an ERROR."""

    def cast(value: Expression, *, tries: bool = False) -> Expression:
        return value if target is None else Cast(value, target, span, tries)

    rejects = {event for event, value in on.items() if value is None}
    name = JSON_VALUES["EMPTY" in rejects, "ERROR" in rejects]
    instead = {event: value for event, value in on.items() if value is not None}
    if len(args) != 2 or not instead:
        return cast(FunctionCall(name, args, span))
    text, path = args
    branches: list[tuple[Expression, Expression]] = []
    if "ERROR" in instead:
        # The value is text that is JSON from here on.
        known = Cast(text, JSON, span, True)
        unknown = IsTest(known, "NULL", False, span)
        is_text = IsTest(text, "NULL", True, span)
        branches.append((Binary("AND", is_text, unknown, span), instead["ERROR"]))
        text = known
    missing = Unary("NOT", FunctionCall("JSON_EXISTS", (text, path), span), span)
    if "EMPTY" in instead:
        branches.append((missing, instead["EMPTY"]))
    value = FunctionCall(name, (text, path), span)
    if "ERROR" in instead:
        compound = IsTest(FunctionCall("JSON_QUERY", (text, path), span), "NULL", True, span)
        branches.append((compound, instead["ERROR"]))
        if target is not None:
            there = IsTest(value, "NULL", True, span)
            unfit = IsTest(cast(value, tries=True), "NULL", False, span)
            branches.append((Binary("AND", there, unfit, span), instead["ERROR"]))
    return Case(None, tuple(branches), cast(value), span)


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


def aggregated_json(
    grammar: JsonGrammar, token: Token, name: str
) -> tuple[FunctionCall, tuple[OrderItem, ...]]:
    """Read the argument of ``JSON_ARRAYAGG(`` or ``JSON_OBJECTAGG(`` with its clauses, without the parenthesis.

    The values of an array may have an order.
    """
    cursor = grammar.cursor
    function = AGGREGATES[name]
    args = _member(grammar) if function == OBJECT else (_value(grammar),)
    order: tuple[OrderItem, ...] = ()
    if function == ARRAY and cursor.accept("ORDER", "BY"):
        order = cursor.comma_list(grammar.order_item)
    return FunctionCall(_on_null(cursor, function), args, cursor.span(token)), order


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
