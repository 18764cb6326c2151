"""The grammar of the statements of a prompt: SHOW, DESCRIBE and PRINT."""

from __future__ import annotations

from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.statements import Describe, Print, Show

SHOWN = ("TABLES", "STREAMS", "VIEWS", "PUMPS", "FUNCTIONS", "SERVERS", "SCHEMAS", "MODELS", "INDEXES")
_LIST = f"{', '.join(SHOWN[:-1])} or {SHOWN[-1]}"
_WITHOUT_SCHEMA = ("FUNCTIONS", "SERVERS", "SCHEMAS", "MODELS")


def of_prompt(cursor: Cursor) -> Show | Describe | Print | None:
    """Read SHOW, DESCRIBE or PRINT if it comes next."""
    first = cursor.current
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        return Describe(cursor.qualified_name("the name of a relation"), cursor.span(first))
    if cursor.accept("PRINT"):
        return Print(cursor.qualified_name("the name of a foreign stream"), cursor.span(first))
    if not cursor.accept("SHOW"):
        return None
    what = cursor.one_of(*SHOWN)
    if what is None:
        raise cursor.unexpected(_LIST, hint="DESCRIBE name lists the columns of a relation.")
    schema = None
    if what not in _WITHOUT_SCHEMA and cursor.one_of("IN", "FROM") is not None:
        schema = cursor.name("the name of a schema")
    pattern = cursor.string("a pattern in single quotes") if cursor.accept("LIKE") else None
    return Show(what, schema, pattern, cursor.span(first))
