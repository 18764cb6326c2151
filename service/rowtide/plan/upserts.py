"""Foreign streams that take the changes of a table: a message replaces or deletes the row of its key.

See docs/sql/streams.md#changes-of-a-table.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowtide.rows.types import RowType

CHANGES, KEY = "changes", "key"
UPSERT = "upsert"


def takes_changes(options: Iterable[tuple[str, str]]) -> bool:
    """Return whether a stream with these options takes the changes of a table."""
    return dict(options).get(CHANGES, "").strip().lower() == UPSERT


def named_columns(row_type: RowType, text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions of the columns that a text names between commas, and the names of no column.

    Names are folded as in SQL: a name in double quotes is exact.
    """
    names = row_type.names
    found, unknown = [], []
    for name in (each.strip() for each in text.split(",")):
        written = name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name.upper()
        if written in names:
            found.append(names.index(written))
        else:
            unknown.append(name)
    return tuple(found), tuple(unknown)


def upsert_key(row_type: RowType, options: Iterable[tuple[str, str]]) -> tuple[int, ...]:
    """Return the positions of the key's columns, without those that do not exist."""
    return named_columns(row_type, dict(options).get(KEY, ""))[0]
