"""Rows from JSON in FROM: JSON_TABLE, and what other systems call it. See docs/sql/json-table.md.

UNNEST and the functions of PostgreSQL, such as JSONB_ARRAY_ELEMENTS, are read as a JSON_TABLE of each element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.json_columns import JsonColumnKind
from rowtide.rows.types import BIGINT, INTEGER, VARCHAR, Type
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import TokenKind
from rowtide.sql.grammar.syntax import (
    BooleanLiteral,
    Expression,
    FromItem,
    JsonColumnSyntax,
    JsonRows,
    Name,
    NullLiteral,
    StringLiteral,
)

_JSON_TABLE, UNNEST = "JSON_TABLE", "UNNEST"
_ELEMENTS = {
    **dict.fromkeys(("JSON_ARRAY_ELEMENTS", "JSONB_ARRAY_ELEMENTS"), JsonColumnKind.JSON),
    **dict.fromkeys(("JSON_ARRAY_ELEMENTS_TEXT", "JSONB_ARRAY_ELEMENTS_TEXT"), JsonColumnKind.TEXT),
}
_RECORDS = ("JSON_TO_RECORDSET", "JSONB_TO_RECORDSET")
_FUNCTIONS = frozenset((_JSON_TABLE, UNNEST, *_ELEMENTS, *_RECORDS))
_ALIAS = "the alias of a relation"
_USAGE = (
    "FROM orders AS o CROSS JOIN JSON_TABLE (o.items, '$[*]' COLUMNS (sku VARCHAR(20) PATH '$.sku')) AS l"
)


class RowsGrammar(Protocol):
    """The parts of rows from JSON."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def type(self) -> Type:
        """Read the name of a type."""

    def alias(self, what: str) -> Name | None:
        """Read ``[AS] name`` if it follows."""


def is_json_rows(cursor: Cursor) -> bool:
    """Return whether rows from JSON come next."""
    ahead = 1 if cursor.is_word("LATERAL") else 0
    token = cursor.ahead(ahead)
    named = token.kind is TokenKind.WORD and token.text in _FUNCTIONS
    return named and cursor.ahead(ahead + 1).text == "("


def without_left(cursor: Cursor) -> StatementError:
    """Return the error for rows from JSON at the beginning of FROM."""
    return cursor.fail(
        f"{cursor.current.text} must follow the relation whose column it reads", hint=f"Write {_USAGE}."
    )


def json_rows(grammar: RowsGrammar, left: FromItem, kind: str | None = None) -> JsonRows:
    """Read rows from JSON of ``left`` with their alias, without the ON after them.

    Raises:
      StatementError: they are not written as this page allows, or the join is RIGHT or FULL.
    """
    cursor = grammar.cursor
    cursor.accept("LATERAL")
    first = cursor.current
    if kind not in (None, "INNER", "LEFT"):
        raise cursor.fail(
            f"{kind} JOIN cannot keep elements without a row: they come from the row",
            hint="Write JOIN, or LEFT JOIN to keep rows without elements.",
        )
    function = cursor.advance().text
    cursor.expect_symbol("(")
    place = cursor.place_of(first)
    document = grammar.expression()
    found = JsonRows(
        left,
        document,
        StringLiteral("$[*]", place),
        (),
        function,
        kind or "INNER",
        BooleanLiteral(True, place),
        empty_on_error=False,
        place=place,
    )
    if function == _JSON_TABLE:
        return _with_alias(grammar, _json_table(grammar, found))
    cursor.expect_symbol(")")
    if function in _RECORDS:
        return _records(grammar, found)
    return _elements(grammar, found)


def on_of_json_rows(grammar: RowsGrammar, found: JsonRows) -> JsonRows:
    """Read the ON of rows from JSON."""
    cursor = grammar.cursor
    if cursor.is_word("USING"):
        raise cursor.unsupported("USING of rows from JSON is", hint="Write ON TRUE.")
    cursor.expect("ON")
    condition = grammar.expression()
    if found.kind == "LEFT" and condition != BooleanLiteral(True):
        raise StatementError(
            "LEFT JOIN of rows from JSON takes ON TRUE only",
            span=condition.place,
            hint="Put the condition into WHERE, or into the ON of a JOIN without LEFT.",
        )
    return replace(found, condition=condition)


def _json_table(grammar: RowsGrammar, found: JsonRows) -> JsonRows:
    """Read ``, path COLUMNS (..) [ERROR | EMPTY ON ERROR])``."""
    cursor = grammar.cursor
    cursor.accept("FORMAT", "JSON")
    cursor.expect_symbol(",")
    token = cursor.current
    path = StringLiteral(cursor.string("a path, such as '$[*]'"), cursor.place_of(token))
    if cursor.accept("AS"):
        cursor.name("the name of the path")
    if cursor.is_word("PASSING"):
        raise cursor.unsupported("PASSING is", hint="A path of JSON_TABLE has no variables.")
    cursor.expect("COLUMNS")
    columns = cursor.wrapped(lambda: _column(grammar))
    empty = cursor.accept("EMPTY")
    if empty:
        cursor.accept("ARRAY")
    if empty or cursor.accept("ERROR"):
        cursor.expect("ON", "ERROR")
    cursor.expect_symbol(")")
    return replace(found, path=path, columns=columns, empty_on_error=empty)


def _column(grammar: RowsGrammar) -> JsonColumnSyntax:
    cursor = grammar.cursor
    first = cursor.current
    if cursor.is_word("NESTED") and (
        cursor.is_word("PATH", ahead=1) or cursor.ahead(1).kind is TokenKind.STRING
    ):
        raise cursor.unsupported(
            "NESTED PATH is",
            hint="Read the inner array as VARCHAR FORMAT JSON, and join a second JSON_TABLE of that column.",
        )
    quoted = first.kind is TokenKind.QUOTED
    name = cursor.name("the name of a column")
    if cursor.accept("FOR", "ORDINALITY"):
        return JsonColumnSyntax(name, INTEGER, JsonColumnKind.ORDINALITY, place=cursor.span(first))
    of = grammar.type()
    kind = JsonColumnKind.VALUE
    if cursor.accept("FORMAT", "JSON"):
        kind = JsonColumnKind.JSON
        cursor.accept("ENCODING", "UTF8")
    elif cursor.accept("EXISTS"):
        kind = JsonColumnKind.EXISTS
    path = None
    token = cursor.current
    if cursor.accept("PATH"):
        token = cursor.current
        path = StringLiteral(cursor.string("the path of the column, such as '$.sku'"), cursor.place_of(token))
    elif quoted:
        escaped = name.text.replace("\\", "\\\\").replace('"', '\\"')
        path = StringLiteral(f'$."{escaped}"', name.place)
    _wrapper(cursor)
    on_empty, on_error = _behaviors(grammar, kind)
    return JsonColumnSyntax(name, of, kind, path, on_empty, on_error, cursor.span(first))


def _wrapper(cursor: Cursor) -> None:
    """Read WITHOUT WRAPPER and KEEP QUOTES, which are the default."""
    if cursor.is_word("WITH") and not cursor.is_word("WITH", "ORDINALITY"):
        raise cursor.unsupported("WITH WRAPPER is", hint="A path of a column names one value.")
    if cursor.accept("WITHOUT"):
        cursor.accept("ARRAY")
        cursor.expect("WRAPPER")
    if cursor.is_word("OMIT", "QUOTES"):
        raise cursor.unsupported("OMIT QUOTES is", hint="A column without FORMAT JSON has no quotes.")
    if cursor.accept("KEEP", "QUOTES"):
        cursor.accept("ON", "SCALAR", "STRING")


def _behaviors(grammar: RowsGrammar, kind: JsonColumnKind) -> tuple[Expression | None, Expression | None]:
    """Read what a column has ON EMPTY and ON ERROR; None for ERROR."""
    cursor = grammar.cursor
    given: dict[str, Expression | None] = {}
    while any(map(cursor.is_word, ("NULL", "ERROR", "DEFAULT", "EMPTY", "TRUE", "FALSE", "UNKNOWN"))):
        token = cursor.current
        place = cursor.place_of(token)
        value: Expression | None
        if cursor.accept("ERROR"):
            value = None
        elif cursor.accept("DEFAULT"):
            value = grammar.expression()
        elif cursor.accept("EMPTY"):
            bracket = "{}" if cursor.accept("OBJECT") else "[]"
            cursor.accept("ARRAY")
            if kind is not JsonColumnKind.JSON:
                raise cursor.fail("EMPTY needs a column with FORMAT JSON", token=token)
            value = StringLiteral(bracket, place)
        elif cursor.one_of("NULL", "UNKNOWN"):
            value = NullLiteral(place)
        else:
            value = BooleanLiteral(cursor.advance().text == "TRUE", place)
        cursor.expect("ON")
        event = cursor.one_of("EMPTY", "ERROR")
        if event is None:
            raise cursor.unexpected('"EMPTY" or "ERROR"')
        if event in given or (event == "EMPTY" and ("ERROR" in given or kind is JsonColumnKind.EXISTS)):
            raise cursor.fail(
                f"ON {event} is not allowed here",
                token=token,
                hint="A column has ON EMPTY, then ON ERROR, each once; EXISTS has ON ERROR only.",
            )
        given[event] = value
    return given.get("EMPTY", NullLiteral()), given.get("ERROR")


def _with_alias(grammar: RowsGrammar, found: JsonRows) -> JsonRows:
    cursor = grammar.cursor
    alias = grammar.alias(_ALIAS)
    names: tuple[Name, ...] = ()
    if alias is not None and cursor.is_symbol("("):
        names = cursor.wrapped(lambda: cursor.name("the name of a column"))
    return replace(found, alias=alias, names=names)


def _elements(grammar: RowsGrammar, found: JsonRows) -> JsonRows:
    """Read ``[WITH ORDINALITY] [alias [(columns)]]`` after UNNEST (x) or a function of PostgreSQL."""
    cursor, place = grammar.cursor, found.place
    numbered = cursor.accept("WITH", "ORDINALITY")
    kind = _ELEMENTS.get(found.function, JsonColumnKind.TEXT)
    found = _with_alias(grammar, found)
    # A function that returns one value names its column like its relation, unless it has a name of its own.
    own = found.alias.text if found.alias is not None and found.function == UNNEST else "VALUE"
    columns = [_whole(Name(own, place), kind, place)]
    if numbered:
        columns.append(
            JsonColumnSyntax(Name("ORDINALITY", place), BIGINT, JsonColumnKind.ORDINALITY, place=place)
        )
    hidden = 0
    if found.alias is not None and not found.names and found.alias.text not in (own, "ORDINALITY"):
        columns.append(_whole(found.alias, kind, place))
        hidden = 1
    return replace(found, columns=tuple(columns), hidden=hidden)


def _whole(name: Name, kind: JsonColumnKind, span: SourceSpan) -> JsonColumnSyntax:
    """Return the column of the whole element."""
    return JsonColumnSyntax(name, VARCHAR, kind, StringLiteral("$", span), NullLiteral(span), None, span)


def _records(grammar: RowsGrammar, found: JsonRows) -> JsonRows:
    """Read ``AS alias (name type, ...)`` after JSONB_TO_RECORDSET (x)."""
    cursor = grammar.cursor
    alias = grammar.alias(_ALIAS)
    if alias is None or not cursor.is_symbol("("):
        raise cursor.unexpected(
            "an alias with columns", hint=f"Write {found.function} (x) AS l (sku VARCHAR(20), qty INTEGER)."
        )
    return replace(found, alias=alias, columns=cursor.wrapped(lambda: _column(grammar)))
