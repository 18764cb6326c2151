"""Foreign keys between the tables of a pipeline that it does not declare (docs/decisions/0029)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rowtide.errors import StatementError
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import Plan
from rowtide.runtime.state.output import target_table
from rowtide.sql.grammar.dialect import RESERVED
from rowtide_connectors.api import Database
from rowtide_connectors.foreign_keys import ReferringDatabase

_PLAIN = re.compile("[A-Z_][A-Z0-9_$]*")


def refuse_undeclared_keys(database: Database, plan: Plan) -> None:
    """Refuse a foreign key of the database between tables that pumps write to, unless the pipeline declares it.

    Without it nothing makes the rows of one table wait for those of the other. Tables that are missing have no keys.

    Raises:
      StatementError: names the tables, and says what to type.
      ConnectorError: as ``ReferringDatabase.foreign_keys``.
    """
    if not isinstance(database, ReferringDatabase):
        return
    written = table_nodes(plan)
    tables = [target_table(table) for table in plan.foreign_tables if table.name in written]
    missing = set(database.missing(tables))
    declared = set(_declared(plan))
    for key in database.foreign_keys([table for table in tables if table.name not in missing]):
        if (key.table, key.other, _pairs(key.columns, key.other_columns)) in declared:
            continue
        own, others = (", ".join(map(_written, names)) for names in (key.columns, key.other_columns))
        clause = f"FOREIGN KEY ({own}) REFERENCES {_written(key.other)} ({others})"
        raise StatementError(
            f'table "{key.table}" has a foreign key to "{key.other}" in the database, which the pipeline does not '
            "declare: which rows are refused would depend on which are read first",
            hint=f"Add to the columns of CREATE FOREIGN TABLE {_written(key.table)}: {clause}. Rows then wait for the "
            "rows that they refer to; a stream that may be silent needs idle_timeout. Or drop the key in the database.",
        )


def _declared(plan: Plan) -> Iterator[tuple[str, str, frozenset[tuple[str, str]]]]:
    tables = {table.name: table for table in plan.foreign_tables}
    for table in plan.foreign_tables:
        for key in table.foreign_keys:
            other = tables[key.table]
            columns = [table.row_type[at].name for at in key.fields]
            yield table.name, other.name, _pairs(columns, [other.row_type[at].name for at in other.key])


def _pairs(columns: Iterable[str], others: Iterable[str]) -> frozenset[tuple[str, str]]:
    return frozenset(zip(columns, others, strict=True))


def _written(name: str) -> str:
    """Return a name as a statement spells it; one with a schema has its quotes."""
    is_plain = _PLAIN.fullmatch(name) is not None and name not in RESERVED
    return name if is_plain or "." in name else '"' + name.replace('"', '""') + '"'
