"""What one call of a database's transaction is given has about WRITE_BYTES of texts, and all rows arrive in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runtime.state.output import TableOutput
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import TargetTable

MOST = 50
TABLE = plan_pipeline(
    "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///o.db');\n"
    "CREATE FOREIGN TABLE o (id BIGINT, x VARCHAR, y VARBINARY) SERVER d;"
).foreign_tables[0]


class Recorded:
    """A transaction that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[Any, ...]]] = []

    def append(self, _: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        self.calls.append(list(zip(*columns.values(), strict=True)))


@given(st.lists(st.tuples(st.none() | st.text(max_size=40), st.none() | st.binary(max_size=40)), min_size=1))
def test_each_call_has_rows_of_limited_size(given_rows: list[tuple[str | None, bytes | None]]) -> None:
    rows = [(at, *row) for at, row in enumerate(given_rows)]
    output = TableOutput(TABLE)
    output.add([Tray.from_rows(TABLE.row_type, [TimedRow(0, 0, row[0], Opcode.INSERT, row) for row in rows])])
    writes, found = output.take(), Recorded()
    assert writes is not None
    with patch("rowtide.runtime.state.output.WRITE_BYTES", MOST):
        writes.apply(found)  # type: ignore[arg-type]
    assert [row for call in found.calls for row in call] == rows
    for call in found.calls:
        sizes = [len((x or "").encode()) + len(y or b"") for _, x, y in call]
        assert sum(sizes[1:]) < MOST
