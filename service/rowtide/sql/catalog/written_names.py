"""Names in options and arguments, parsed as in SQL."""

from __future__ import annotations

import re

from rowtide.errors import StatementError

DEFAULT_SCHEMA = "PUBLIC"
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".\s]+)')


def fold(name: str) -> str:
    """Return one part of a name as in the catalog: folded to upper case unless it is in quotes.

    Raises:
      StatementError: if it is not one part of a name.
    """
    parts = _parts(name)
    if len(parts) != 1:
        raise StatementError(f'invalid column name: "{name}"')
    return parts[0]


def relation_name(name: str) -> str:
    """Return the catalog name of a relation: with its schema unless that is the default schema.

    Raises:
      StatementError: the text is not the name of a relation.
    """
    parts = _parts(name)
    if len(parts) == 2 and parts[0] == DEFAULT_SCHEMA:
        parts = parts[1:]
    return ".".join(_quoted(part) for part in parts)


def _parts(name: str) -> list[str]:
    parts: list[str] = []
    position = 0
    text = name.strip()
    while match := _PART.match(text, position):
        quoted, plain = match.groups()
        parts.append(plain.upper() if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    if position < len(text) or text.endswith(".") or not 1 <= len(parts) <= 2:
        raise StatementError(
            f'invalid name: "{name}"',
            hint="Write names as in SQL: name or schema.name, in double quotes if they have mixed case.",
        )
    return parts


def _quoted(part: str) -> str:
    """Quote a part of a name that has a dot or a quote."""
    return '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part
