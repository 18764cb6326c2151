"""Records of written messages, of Avro and of Protobuf: the places of columns in them, and their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.codec.encode.json import main_spelling, place_of, refuse_collisions
from rowtide.codec.format_options import PATH
from rowtide.codec.options import Declared
from rowtide.rows.types import Field, RowType

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of records and fields."""


class UnfitError(Exception):
    """A type of a schema cannot carry a column; the argument says why, if the types alone do not."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record has the column at ``at``; ``exact``: letters count, because the column declares its path."""

    at: int
    field: Field
    path: tuple[str, ...]
    exact: bool


def places_of(declared: Declared, row_type: RowType) -> Sequence[Place]:
    """Return the places of all columns.

    Raises:
      StatementError: the type of a column or one of its options is wrong, or two columns have one place.
    """
    places = [
        Place(at, field, place_of(declared, field), PATH in declared.of(field.name))
        for at, field in enumerate(row_type)
    ]
    refuse_collisions(declared, row_type.names, [place.path for place in places])
    return places


def name_of_columns(declared: Declared) -> str:
    """Return the name of the record that is made of the columns: that of the stream."""
    name = re.sub(r"\W", "_", main_spelling(declared.relation.rpartition(".")[2]), flags=re.ASCII)
    return name if NAME.match(name) else f"_{name}"
