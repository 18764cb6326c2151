"""An engine table some of whose columns are UNIQUE, in plain Python, row by row.

A row is rejected (CONSTRAINT) if another row of the table has the same values there; NULL and NaN are never
equal. A row of the same primary key is not another row: it is replaced.
"""

from __future__ import annotations

from math import isnan

from rowtide.errors import Reason
from rowtide.operators.contract import Fault, OperatorSite, State
from rowtide.operators.faults import rejected
from rowtide.operators.table.keyed_table_by_row import KeyedTableByRow
from rowtide.plan.nodes import UniqueTable
from rowtide.rows.rowop import Opcode, Row, TimedRow


class UniqueTableOperator(KeyedTableByRow):
    """Rows by primary key or as a multiset, and for each UNIQUE the row of each value."""

    def __init__(self, node: UniqueTable, site: OperatorSite) -> None:
        super().__init__(node, site)
        self._unique = node
        self._held: list[dict[Row, Row]] = [{} for _ in node.unique]

    def restore(self, state: State) -> None:
        super().restore(state)
        for timed in self.contents().rows():
            self._follow(timed)

    def _refused(self, timed: TimedRow) -> Fault | None:
        fault = super()._refused(timed)
        if fault is not None or timed.opcode != Opcode.INSERT:
            return fault
        for columns, held in zip(self._unique.unique, self._held, strict=True):
            values = _values(timed.row, columns)
            other = None if values is None else held.get(values)
            if other is not None and not (self._key and self._key_of(other) == self._key_of(timed.row)):
                return _taken(self._unique, columns, timed)
        return None

    def _change_by_key(self, timed: TimedRow, out: list[TimedRow]) -> None:
        known = len(out)
        super()._change_by_key(timed, out)
        for each in out[known:]:
            self._follow(each)

    def _change_multiset(self, timed: TimedRow, out: list[TimedRow]) -> None:
        known = len(out)
        super()._change_multiset(timed, out)
        for each in out[known:]:
            self._follow(each)

    def _follow(self, change: TimedRow) -> None:
        """Record the values of an inserted row, or free those of a deleted one."""
        for columns, held in zip(self._unique.unique, self._held, strict=True):
            values = _values(change.row, columns)
            if values is None:
                continue
            if change.opcode == Opcode.INSERT:
                held[values] = change.row
            elif held.get(values) == change.row:
                del held[values]


def _values(row: Row, columns: tuple[int, ...]) -> Row | None:
    """Return the unique values of a row; None if they equal no other, because of a NULL or a NaN."""
    values = tuple(row[index] for index in columns)
    return None if any(each is None or _is_nan(each) for each in values) else values


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


def _taken(node: UniqueTable, columns: tuple[int, ...], timed: TimedRow) -> Fault:
    names = ", ".join(f'"{node.row_type[index].name}"' for index in columns)
    what = f"column {names} is" if len(columns) == 1 else f"the columns {names} are"
    message = f"{what} UNIQUE, and another row of the table has the same"
    return rejected(node.relation, Reason.CONSTRAINT, message, timed, node.row_type.names)
