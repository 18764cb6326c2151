"""The grammar of FOREIGN KEY (..) REFERENCES in a foreign table (docs/decisions/0029)."""

from __future__ import annotations

from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.statements import ForeignKeyDefinition, ObjectKind
from rowtide.sql.grammar.syntax import Name

_NO_REFERENCES = "A join or a sub-query looks into the other table; rows without one there are not rejected."


def foreign_key(cursor: Cursor, kind: ObjectKind) -> ForeignKeyDefinition:
    """Read FOREIGN KEY (column, ..) REFERENCES table [(column, ..)]."""
    if kind is not ObjectKind.FOREIGN_TABLE:
        raise cursor.unsupported("FOREIGN KEY is", hint=_NO_REFERENCES)
    cursor.expect("FOREIGN", "KEY")
    columns = cursor.wrapped(lambda: cursor.name("the name of a column"))
    return references(cursor, kind, columns)


def references(cursor: Cursor, kind: ObjectKind, columns: tuple[Name, ...]) -> ForeignKeyDefinition:
    """Read REFERENCES table [(column, ..)], of ``columns``."""
    if kind is not ObjectKind.FOREIGN_TABLE:
        raise cursor.unsupported("REFERENCES is", hint=_NO_REFERENCES)
    first = cursor.expect("REFERENCES")
    table = cursor.qualified_name("the name of a foreign table")
    referred = cursor.wrapped(lambda: cursor.name("the name of a column")) if cursor.is_symbol("(") else None
    place = cursor.span(first)
    for clause in (("MATCH",), ("ON", "DELETE"), ("ON", "UPDATE"), ("DEFERRABLE",), ("NOT", "DEFERRABLE")):
        if cursor.is_word(*clause):
            raise cursor.unsupported(
                f"{' '.join(clause)} is", hint="Leave it out: what the key of the database says holds."
            )
    return ForeignKeyDefinition(columns, table, referred, place)
