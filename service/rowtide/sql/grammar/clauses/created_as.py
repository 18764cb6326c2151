"""The grammar of CREATE STREAM or TABLE name .. AS query."""

from __future__ import annotations

from typing import Protocol

from rowtide.errors import SourceSpan
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import TokenKind
from rowtide.sql.grammar.statements import CreateAs, ObjectKind, OptionItem
from rowtide.sql.grammar.syntax import Name, QualifiedName, QuerySyntax


class CreatedAsGrammar(Protocol):
    """The parts of this statement."""

    cursor: Cursor

    def query(self) -> QuerySyntax:
        """Read a query."""

    def options_and_description(self) -> tuple[OptionItem, ...]:
        """Read OPTIONS (..) and DESCRIPTION '..' if they follow."""

    def options_behind(self, before: tuple[OptionItem, ...]) -> tuple[OptionItem, ...]:
        """Read OPTIONS after a query; they are not allowed if OPTIONS are ``before`` it."""


def is_created_as(cursor: Cursor) -> bool:
    """Return whether AS follows outside of parentheses: the columns are those of a query."""
    ahead = depth = 0
    while cursor.ahead(ahead).kind is not TokenKind.END:
        token = cursor.ahead(ahead)
        if token.kind is TokenKind.SYMBOL:
            depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and cursor.is_word("AS", ahead=ahead):
            return True
        ahead += 1
    return False


def created_as(
    grammar: CreatedAsGrammar, kind: ObjectKind, name: QualifiedName, span: SourceSpan, *, replace: bool
) -> CreateAs:
    """Read what follows the name of the relation."""
    cursor = grammar.cursor
    columns, key = _columns(cursor) if cursor.is_symbol("(") else ((), ())
    server = None
    if kind in (ObjectKind.FOREIGN_STREAM, ObjectKind.FOREIGN_TABLE):
        cursor.expect("SERVER")
        server = cursor.qualified_name("the name of the server")
    elif cursor.is_word("SERVER"):
        what = kind.value.upper()
        raise cursor.fail(
            f"a {kind.value} with SERVER is filled by its server, not by a query",
            hint=f"CREATE FOREIGN {what} name SERVER name AS SELECT .. writes the rows of a query to a server.",
        )
    options = grammar.options_and_description()
    cursor.expect("AS")
    query = grammar.query()
    pump_options = grammar.options_behind(() if server is not None else options)
    own = options if server is not None else ()
    return CreateAs(kind, name, replace, columns, key, server, own, query, pump_options, span)


def _columns(cursor: Cursor) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    """Read ``(name, .., PRIMARY KEY (name, ..))``: the names of the columns, and those of the key."""
    columns: list[Name] = []
    key: list[Name] = []

    def element() -> None:
        if cursor.is_word("PRIMARY"):
            token = cursor.expect("PRIMARY", "KEY")
            if key:
                raise cursor.fail("a second PRIMARY KEY", token=token)
            key.extend(cursor.wrapped(lambda: cursor.name("the name of a column")))
            return
        columns.append(cursor.name("the name of a column"))
        if not cursor.is_symbol(",", ")"):
            raise cursor.unexpected(
                '"," or ")"',
                hint="The types are those of the query: write names alone, and CAST(x AS type) in the query.",
            )

    cursor.wrapped(element)
    return tuple(columns), tuple(key)
