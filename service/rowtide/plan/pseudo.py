"""The pseudo-columns of a Kafka row: the parts of a message besides its value.

See docs/sql/semantics.md#servers-formats-and-pseudo-columns.

``*`` does not contain them, and they are not declared. A foreign stream has those that a query of its
pipeline names, as fields after its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowtide.rows.types import BIGINT, INTEGER, TIMESTAMP, Field, Kind, RowType, Type

MAX_TOPIC_CHARACTERS = 249
"""The length of the longest name of a Kafka topic."""

PSEUDO_COLUMNS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("KAFKA_TOPIC", Type(Kind.VARCHAR, MAX_TOPIC_CHARACTERS), nullable=False),
        Field("KAFKA_PARTITION", INTEGER, nullable=False),
        Field("KAFKA_OFFSET", BIGINT, nullable=False),
        Field("KAFKA_KEY", Type(Kind.VARBINARY)),
        Field("KAFKA_TIMESTAMP", TIMESTAMP, nullable=False),
        Field("KAFKA_HEADERS", Type(Kind.VARCHAR)),
    )
}
"""KAFKA_HEADERS is JSON: an array of ``["name", "value"]`` in their order, NULL without headers."""

WITH_PSEUDO_COLUMNS = frozenset({"KAFKA", "MEMORY"})
"""The wrappers whose messages have them."""


def with_pseudo_columns(row_type: RowType, names: Iterable[str]) -> RowType:
    """Return a row type with pseudo-columns after its own columns."""
    return RowType((*row_type, *(PSEUDO_COLUMNS[name] for name in names)))
