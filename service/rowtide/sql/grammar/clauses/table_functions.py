"""Rows of a table function: ``FROM TABLE(f(CURSOR(SELECT STREAM ..) PARTITION BY k, argument))``.

See docs/sql/functions.md#table-functions-in-python.
"""

from __future__ import annotations

from typing import Protocol

from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.syntax import Expression, FunctionCall, Name, QuerySyntax, RowsOfFunction

_USAGE = "Write TABLE(function(CURSOR(SELECT STREAM ..) PARTITION BY column, argument, ..))."


class TableFunctionGrammar(Protocol):
    """The parts of such rows."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def query(self) -> QuerySyntax:
        """Read a query."""


def is_table_function(cursor: Cursor) -> bool:
    """Return whether ``TABLE (`` comes next."""
    return cursor.is_word("TABLE") and cursor.ahead(1).text == "("


def table_function(grammar: TableFunctionGrammar) -> RowsOfFunction:
    """Read ``TABLE(function(CURSOR(query) ..))`` without the alias after it."""
    cursor = grammar.cursor
    first = cursor.expect("TABLE")
    cursor.expect_symbol("(")
    token = cursor.current
    name = cursor.name("the name of a table function")
    if not cursor.is_symbol("("):
        raise cursor.unsupported("TABLE(...) of a relation is", token=token)
    cursor.expect_symbol("(")
    if cursor.is_word("TABLE"):
        raise cursor.unsupported("TABLE(...) of this function is", token=token)
    if not cursor.accept("CURSOR"):
        raise cursor.unexpected('"CURSOR"', hint=_USAGE)
    cursor.expect_symbol("(")
    query = grammar.query()
    cursor.expect_symbol(")")
    partition: tuple[Name, ...] = ()
    if cursor.accept("PARTITION"):
        cursor.expect("BY")
        if cursor.is_symbol("("):
            partition = cursor.wrapped(lambda: cursor.name("the name of a column"))
        else:
            partition = (cursor.name("the name of a column"),)
    args = []
    while cursor.accept_symbol(","):
        args.append(grammar.expression())
    cursor.expect_symbol(")")
    call = FunctionCall(name.text, tuple(args), cursor.span(token))
    cursor.expect_symbol(")")
    return RowsOfFunction(call, query, partition, cursor.span(first))
