"""The grammar of ALTER PUMP .. START | STOP."""

from __future__ import annotations

from rowtide.errors import SourceSpan
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.statements import AlterPump
from rowtide.sql.grammar.syntax import QualifiedName


def altered_pumps(cursor: Cursor, span: SourceSpan) -> AlterPump | QualifiedName:
    """Read the pumps of ALTER PUMP, and START or STOP; the name of one pump that neither follows.

    Raises:
      StatementError: START or STOP does not follow several pumps.
    """
    every = _all_pumps(cursor)
    pumps = (every,) if every is not None else cursor.comma_list(lambda: _pump(cursor))
    word = cursor.one_of("START", "STOP")
    if word is not None:
        return AlterPump(pumps, word == "START", span, every=every is not None)
    if every is not None or len(pumps) > 1:
        raise cursor.unexpected("START or STOP")
    return pumps[0]


def _pump(cursor: Cursor) -> QualifiedName:
    return cursor.qualified_name("the name of the pump")


def _all_pumps(cursor: Cursor) -> QualifiedName | None:
    """Read ``*`` or ``schema.*``; the name is that of the schema, or empty."""
    first = cursor.current
    if cursor.accept_symbol("*"):
        return QualifiedName((), cursor.span(first))
    if not cursor.is_name() or cursor.ahead(1).text != "." or cursor.ahead(2).text != "*":
        return None
    schema = cursor.name("the name of a schema")
    cursor.expect_symbol(".")
    cursor.expect_symbol("*")
    return QualifiedName((schema,), cursor.span(first))
