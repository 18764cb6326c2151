"""The columns of JSON_TABLE, and its limit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rowtide.expr.json_path import JsonSteps
from rowtide.expr.tree import Expr, Literal

MOST_ELEMENTS = 1 << 16
"""Maximum number of rows that one row becomes. Spark numbers the rows of one row with 16 bits."""


class JsonColumnKind(Enum):
    """The part of a value that a column of JSON_TABLE has."""

    VALUE = "value"
    """The number, text or truth value at the path."""
    TEXT = "text"
    """The value at the path as text: a string without its quotes, an object or array as JSON."""
    JSON = "json"
    """The value at the path as JSON."""
    EXISTS = "exists"
    """Whether the path exists."""
    ORDINALITY = "ordinality"
    """The number of the row among those of its row, from 1."""


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A column of JSON_TABLE.

    ``convert`` makes the value from a row of one field: text, or for EXISTS a truth value. ``on_empty`` is the
    value if the path does not exist, ``on_error`` the value if it does not fit; None rejects the row.
    ``any_case``: the path is the name of the column, whose case does not matter.
    """

    kind: JsonColumnKind
    steps: JsonSteps = ()
    convert: Expr | None = None
    on_empty: Literal | None = None
    on_error: Literal | None = None
    any_case: bool = False
