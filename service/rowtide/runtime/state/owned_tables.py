"""Which tables of its database a pipeline has for itself: two that fill one table would double its rows.

The checkpoint keeps their names with the digest of the plan. Option ``shared`` of a foreign table gives it up.
"""

from __future__ import annotations

from rowtide.plan.plan import ForeignTable, Plan
from rowtide_connectors.api import Option
from rowtide_connectors.options import read_options

SHARED = "shared"
OWN_TABLE_OPTIONS = (
    Option(
        SHARED,
        bool,
        "TRUE: other pipelines may write to the table, too. Without it a pipeline does not start over a table that "
        "another one writes to",
        "table",
        default=False,
        changeable=True,
    ),
)
"""Rowtide's own options of a foreign table, with any connector."""


def is_shared(table: ForeignTable) -> bool:
    """Return whether other pipelines may write to a table.

    Raises:
      OptionError: the option is not TRUE or FALSE.
    """
    given = {name: value for name, value in table.options if name == SHARED}
    return read_options(f'foreign table "{table.name}"', OWN_TABLE_OPTIONS, "table", given).get(SHARED, bool)


def owned_tables(plan: Plan) -> list[str]:
    """Return the names, in the database, of the tables that only this pipeline may write to, in lower case.

    Raises:
      OptionError: as ``is_shared``.
    """
    tables = [table for table in plan.foreign_tables if not is_shared(table)]
    return sorted({dict(table.options).get("table_name", table.name).lower() for table in tables})
