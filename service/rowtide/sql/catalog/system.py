"""Schema SYS: the system's tables.

``SYS.ERRORS`` is the table of the error rows that a pipeline has committed. A prompt can read it; a pipeline
cannot (docs/decisions/0004-errors-are-read-as-a-table.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from rowtide.errors import SourceSpan, StatementError
from rowtide.rows.rowop import Row
from rowtide.rows.types import BIGINT, INTEGER, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type
from rowtide.sql.catalog.objects import SYSTEM_SCHEMA, Catalog, Key, Origin, TableDefinition
from rowtide.sql.grammar.statements import Explain, QueryStatement, SetSchema, Statement
from rowtide.sql.grammar.syntax import QualifiedName

ERRORS: Key = (SYSTEM_SCHEMA, "ERRORS")
ERROR_ROWS = RowType(
    (
        Field("ERROR_ID", BIGINT, nullable=False),
        Field("KIND", VARCHAR, nullable=False),
        Field("RELATION", VARCHAR, nullable=False),
        Field("REASON", VARCHAR, nullable=False),
        Field("BOUND", TIMESTAMP),
        Field("ROW_TIME", TIMESTAMP),
        Field("RAW", Type(Kind.VARBINARY)),
        Field("ROW_JSON", VARCHAR),
        Field("STREAM", VARCHAR),
        Field("TOPIC", VARCHAR),
        Field("MESSAGE_PARTITION", INTEGER),
        Field("MESSAGE_OFFSET", BIGINT),
        Field("MESSAGE_TIME", TIMESTAMP),
        Field("RESUBMITTED", BIGINT),
        Field("COMMITTED_AT", TIMESTAMP, nullable=False),
    )
)
"""The columns of SYS.ERRORS, as in docs/sql/errors.md."""


def with_errors(catalog: Catalog, rows: Sequence[Row] = ()) -> Catalog:
    """Return a catalog in which SYS.ERRORS is a table that holds ``rows``."""
    origin = Origin("", None, SourceSpan(1, 1))
    return catalog.define(ERRORS, TableDefinition(ERROR_ROWS, (0,), origin, rows=tuple(rows)))


def refuse_change(statement: Statement) -> None:
    """Refuse a statement that creates, changes or fills an object in schema SYS.

    Raises:
      StatementError: with the place of the name.
    """
    if isinstance(statement, QueryStatement | Explain | SetSchema):
        return
    for field in fields(statement):
        name = getattr(statement, field.name)
        if isinstance(name, QualifiedName) and len(name.parts) > 1 and name.parts[0].text == SYSTEM_SCHEMA:
            raise StatementError(f'schema "{SYSTEM_SCHEMA}" belongs to the system', place=name.place)
