"""docs/reference/type-mapping.md, generated from the declarations of types.

``python -m rowtide.cli.pages.type_reference > docs/reference/type-mapping.md``
"""

from __future__ import annotations

import sys

from rowtide_connectors.rdbms.sql_type import TYPES, SqlType
from rowtide_connectors.rdbms.sqlite import Sqlite, affinity

HEAD = """\
# SQL types and types of databases

Which type a column of a foreign table has in the database. `python -m rowtide.cli.pages.type_reference` writes this
page, and a test checks that it is current. [Databases](../howto/databases.md) describes the databases.

* **Created as** is the type in a table that Rowtide creates. Lengths and digits are those of the declaration.
* **Also fits** are the types that the column of an existing table may have. They take each value unchanged, or
  refuse its row: a value that does not fit, such as 70000 in a `smallint`, is an error row with the reason
  CONSTRAINT, and the pipeline continues.
* Another type is refused at a start and by `rowtide connectors check`. The message names table, column, both types
  and the types that fit.
* TIMESTAMP, with and without time zone, and ROWTIME are UTC. A column of an existing table needs milliseconds:
  `time(0)` is refused.
"""

NAMES = {"postgresql": "PostgreSQL", "mysql": "MariaDB and MySQL"}

TAIL = """
* `VARCHAR` into `uuid`: the text is a UUID in small letters (`LOWER(x)`), so that equal keys are equal texts.
* `UUID`, `JSON` and `ARRAY` are text in MariaDB, MySQL and SQLite.
* `VARCHAR` into `json` or `jsonb`: the text is JSON. `rowtide replay --compare` ignores white space and the order
  of keys. These columns cannot be keys.
* `ARRAY` in PostgreSQL is an array, `[]`, of the type of its elements. An existing column fits if it takes all
  elements unchanged: `integer[]` or `bigint[]` for `INTEGER ARRAY`. In `jsonb`, `json` and text, and in the other
  databases, it is a JSON array, which `rowtide replay --compare` compares by value. In keys of MariaDB and MySQL it
  is `varchar`.
* MariaDB and MySQL: `VARCHAR` and `VARBINARY` of more than 255, or without a length, are `longtext` and `longblob`,
  except in keys. Intervals are whole milliseconds and whole months. `TIME` and `TIMESTAMP` have three digits of a
  second. TIMESTAMP WITH TIME ZONE is a `datetime` in UTC, because a `timestamp` ends in 2038.

## SQLite

A type is a preference there (its affinity). The column of an existing table needs the same affinity.

| SQL type | created as | affinity |
|---|---|---|
"""


def types_page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for kind, name in NAMES.items():
        parts.append(f"\n## {name}\n\n| SQL type | created as | also fits |\n|---|---|---|\n")
        for sql_type, targets in TYPES[kind].items():
            others = ", ".join(f"`{each}`" for each in targets.taken if each != targets.created)
            parts.append(f"| {sql_type} | `{targets.created}` | {others} |\n")
    parts.append(TAIL)
    for sql_type in TYPES["postgresql"]:
        declared = SqlType(sql_type, 10, 2) if sql_type == "DECIMAL" else SqlType(sql_type)
        created = Sqlite().type_ddl(declared)
        parts.append(f"| {sql_type} | `{created.split('(')[0]}` | {affinity(created)} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(types_page())
