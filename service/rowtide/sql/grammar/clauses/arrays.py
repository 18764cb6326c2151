"""The grammar of arrays: ARRAY[a, b], a[1], a[1:2], x = ANY (a), and their types (docs/sql/arrays.md).

Each is read as a call of a function.
"""

from __future__ import annotations

from typing import Protocol

from rowtide.expr.functions.arrays.elements import MAKER, SLICE, SUBSCRIPT, quantified_name
from rowtide.rows.types import Type, array_of
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.syntax import Expression, FunctionCall, NumberLiteral

_LAST = str(2**31 - 1)


class ArrayGrammar(Protocol):
    """The parts of arrays."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""


def is_array(cursor: Cursor) -> bool:
    """Return whether ``ARRAY[`` follows."""
    return (
        cursor.is_word("ARRAY") and cursor.ahead(1).kind is TokenKind.SYMBOL and cursor.ahead(1).text == "["
    )


def array(grammar: ArrayGrammar) -> FunctionCall:
    """Read ``ARRAY[a, b, ..]``."""
    cursor = grammar.cursor
    first = cursor.expect("ARRAY")
    cursor.expect_symbol("[")
    items = () if cursor.is_symbol("]") else cursor.comma_list(grammar.expression)
    cursor.expect_symbol("]")
    return FunctionCall(MAKER, items, cursor.span(first))


def with_subscripts(grammar: ArrayGrammar, left: Expression, first: Token) -> Expression:
    """Read the subscripts after ``left``, if any: ``[1]``, ``[1:2]``, ``[2:]``, ``[:2]``."""
    cursor = grammar.cursor
    while cursor.accept_symbol("["):
        place = cursor.place_of(cursor.current)
        low: Expression = NumberLiteral("1", place)
        if not cursor.is_symbol(":"):
            low = grammar.expression()
        if not cursor.accept_symbol(":"):
            cursor.expect_symbol("]")
            left = FunctionCall(SUBSCRIPT, (left, low), cursor.span(first))
            continue
        high: Expression = NumberLiteral(_LAST, place)
        if not cursor.is_symbol("]"):
            high = grammar.expression()
        cursor.expect_symbol("]")
        left = FunctionCall(SLICE, (left, low, high), cursor.span(first))
    return left


def compared_with_elements(
    grammar: ArrayGrammar, operator: str, left: Expression, first: Token, *, every: bool
) -> FunctionCall:
    """Read ``array)`` after ``= ANY (`` or ``= ALL (``."""
    cursor = grammar.cursor
    given = grammar.expression()
    if cursor.is_symbol(","):
        raise cursor.fail(
            "ANY and ALL take one array or a query, not a list",
            hint="A list of values follows IN: x IN (1, 2). An array is written ARRAY[1, 2].",
        )
    cursor.expect_symbol(")")
    return FunctionCall(quantified_name(operator, every=every), (left, given), cursor.span(first))


def array_type(cursor: Cursor, element: Type, first: Token) -> Type:
    """Read ``ARRAY`` or ``[]`` after the type of the elements, if it follows.

    Raises:
      StatementError: there are no arrays of this type, or it has a number of elements.
    """
    while cursor.is_word("ARRAY") or cursor.is_symbol("["):
        is_word = cursor.accept("ARRAY")
        if cursor.accept_symbol("["):
            if not cursor.is_symbol("]") or is_word:
                raise cursor.fail(
                    "the number of elements of an array has no limit", hint=f"Write {element} ARRAY."
                )
            cursor.expect_symbol("]")
        element = checked_array(cursor, element, first)
    return element


def array_in_angles(cursor: Cursor, element: Type, first: Token) -> Type:
    """Read ``>`` after ``ARRAY<`` and the type of the elements."""
    if cursor.is_symbol(">>"):
        raise cursor.fail("arrays of arrays do not exist", token=first, hint=_NESTED)
    cursor.expect_symbol(">")
    return checked_array(cursor, element, first)


_NESTED = "A column of type JSON holds nested arrays."


def checked_array(cursor: Cursor, element: Type, first: Token) -> Type:
    """Return the type of arrays of ``element``.

    Raises:
      StatementError: there are no arrays of this type.
    """
    if not element.can_be_element:
        what = "arrays" if element.element is not None else str(element)
        raise cursor.fail(f"arrays of {what} do not exist", token=first, hint=_NESTED)
    return array_of(element)
