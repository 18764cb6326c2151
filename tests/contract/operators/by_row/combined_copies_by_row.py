"""EXCEPT ALL and INTERSECT ALL of tables, row by row, in plain Python.

It is the reference of the compiled form.
"""

from __future__ import annotations

from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.table.combined_copies import FIRST, SECOND, counted
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray


class CombinedCopiesByRow(AtOnce):
    """For each row its number in either table."""

    def __init__(self, node: CombinedCopies, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._counts: dict[Row, list[int]] = {}

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            *fields, side = timed.row
            row = tuple(fields)
            counts = self._counts.get(row, [0, 0])
            before = self._copies(counts)
            at = 0 if side == 0 else 1
            counts[at] = max(counts[at] + timed.opcode, 0)
            if any(counts):
                self._counts[row] = counts
            else:
                self._counts.pop(row, None)
            if (change := self._copies(counts) - before) != 0:
                out.append(timed._replace(opcode=Opcode(change), row=row))
        return Tray.from_rows(self._node.row_type, out) if out else None

    def snapshot(self) -> State:
        """``rows`` has each row once, with its two counts."""
        rows = [TimedRow(0, 0, 0, Opcode.INSERT, row) for row in self._counts]
        return {
            "account": self.account.to_arrow(),
            "rows": counted(self._tray(rows), [*self._counts.values()]),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        for timed, first, second in zip(
            Tray.from_arrow(self._node.row_type, state["rows"]).rows(),
            *(state["rows"].column(name).to_pylist() for name in (FIRST, SECOND)),
            strict=True,
        ):
            self._counts[timed.row] = [first, second]

    def _tray(self, rows: list[TimedRow]) -> Tray:
        return Tray.from_rows(self._node.row_type, rows)

    def _copies(self, counts: list[int]) -> int:
        first, second = counts
        return max(first - second, 0) if self._node.operation == "EXCEPT" else min(first, second)
