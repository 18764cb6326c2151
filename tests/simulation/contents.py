"""What a database holds of a pipeline, in a form that two runs can be compared in."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionId
from rowtide.plan.plan import Plan

_ERROR = "kind relation reason topic partition message_offset rowtime bound late_by raw row_json stream message_time"
_ACCOUNT = "part relation rows_in done filtered late rejected held rows_out"


@dataclass(frozen=True, slots=True)
class Contents:
    """The tables, error rows, positions, bounds and accounts. Rows are as the database stores them, in
    Python's exact notation: 1 is not 1.0."""

    tables: Mapping[str, Counter[str]]
    positions: Mapping[PartitionId, int]
    bounds: Mapping[PartitionId, int | None]

    def difference(self, expected: Contents) -> str | None:
        """Return what differs from ``expected``, in words; None: nothing."""
        for name, rows in expected.tables.items():
            held = self.tables[name]
            if held != rows:
                return f"{name}: {_shown(held - rows)} too many, {_shown(rows - held)} missing"
        if self.bounds != expected.bounds:
            return f"bounds are {self.bounds}, expected {expected.bounds}"
        return None


def contents(connection: sqlite3.Connection, plan: Plan) -> Contents:
    """Return what is committed of the only pipeline of a database."""
    names = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}

    def rows(table: str, columns: str = "*") -> Sequence[tuple[object, ...]]:
        listed = ", ".join(f'"{each}"' for each in columns.split()) if columns != "*" else columns
        return connection.execute(f'select {listed} from "{table}"').fetchall() if table in names else ()

    found = {table.name: rows(table.name.lower()) for table in plan.foreign_tables}
    found["error rows"] = rows("rowtide_errors", _ERROR)
    found["accounts"] = rows("rowtide_accounts", _ACCOUNT)
    partition_positions = rows("rowtide_positions", "relation partition next_offset bound")
    return Contents(
        {name: Counter(map(repr, given)) for name, given in found.items()},
        {
            (str(relation), int(str(partition))): int(str(offset))
            for relation, partition, offset, _ in partition_positions
        },
        {
            (str(relation), int(str(partition))): None if bound is None else int(str(bound))
            for relation, partition, _, bound in partition_positions
        },
    )


def _shown(rows: Counter[str]) -> str:
    few = ", ".join(list(rows.elements())[:3])
    return f"{rows.total()} row(s) ({few})" if rows else "0 rows"
