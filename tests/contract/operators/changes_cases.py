"""Cases of groups whose changes are emitted."""

from __future__ import annotations

from hypothesis import strategies as st

from contract.operators.inputs import ordered_items
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import Bound


@st.composite
def changelog_items(
    draw: st.DrawFn,
    row_type: RowType,
    origins: tuple[int, ...],
    times: st.SearchStrategy[int],
    rows: int = 14,
    row: st.SearchStrategy[Row] | None = None,
) -> tuple[TimedRow | Bound, ...]:
    """Return the changes of a table: what is deleted was there. ``row`` gives its rows, if not any will do."""
    live: list[Row] = []
    found: list[TimedRow | Bound] = []
    for item in draw(
        ordered_items(row_type if row is None else RowType(()), origins, times, copies=True, rows=rows)
    ):
        if isinstance(item, Bound):
            found.append(item)
        elif live and draw(st.integers(0, 2)) == 0:
            gone = live.pop(draw(st.integers(0, len(live) - 1)))
            found.append(item._replace(opcode=Opcode.DELETE, row=gone))
        else:
            given = item if row is None else item._replace(row=draw(row))
            live.append(given.row)
            found.append(given)
    return tuple(found)
