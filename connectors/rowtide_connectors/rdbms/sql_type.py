"""The SQL types of target columns, read from their standard spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rowtide_connectors.errors import OptionError

_SPELLING = re.compile(r"([A-Z][A-Z ]*[A-Z])\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")

NAMES = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "REAL",
        "DOUBLE",
        "DECIMAL",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "INTERVAL DAY TO SECOND",
        "INTERVAL YEAR TO MONTH",
    }
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type's name, with the digits or length in ``precision`` where it has any."""

    name: str
    precision: int | None = None
    scale: int = 0

    @property
    def arguments(self) -> str:
        """Return the numbers in parentheses after the name; empty if there are none."""
        if self.precision is None:
            return ""
        return f"({self.precision}, {self.scale})" if self.name == "DECIMAL" else f"({self.precision})"


def parse_type(spelling: str) -> SqlType:
    """Read a type such as ``DECIMAL(10, 2)``.

    Raises:
      OptionError: it is not one of ``NAMES``.
    """
    found = _SPELLING.fullmatch(spelling.strip().upper())
    if found is None or found[1] not in NAMES:
        raise OptionError(f'type "{spelling}" does not exist', hint=f"Available: {', '.join(sorted(NAMES))}.")
    return SqlType(found[1], int(found[2]) if found[2] else None, int(found[3] or 0))
