"""Operators without waiting rows: changes are emitted when their row arrives, and bounds pass."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.operators.contract import Account, Fault, State, StepOutput, joined_states
from rowtide.operators.splitting import key_of, parts_of_rows, split_state
from rowtide.plan.nodes import Node
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


class AtOnce:
    """Steps and account of such an operator, which processes a tray in ``_take``."""

    def __init__(self) -> None:
        self.account = Account()

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        if tray is None or not len(tray):
            return StepOutput(None, bound)
        faults: list[Fault] = []
        out = self._take(tray, faults)
        self.account.rows_in += len(tray)
        self.account.rejected += len(faults)
        self.account.done += len(tray) - len(faults)
        if out is None or not len(out):
            return StepOutput(None, bound, faults)
        self.account.rows_out += len(out)
        return StepOutput(out, bound, faults)

    def held(self) -> int:
        """Return 0: no row waits."""
        return 0

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        return joined_states(states)

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        """Split every row by the key of its node: tables of rows have the fields of the input."""
        (key,) = key_of(node)
        row_type = node.inputs[0].row_type
        by_part = {
            name: parts_of_rows(row_type, table, key, parts)
            for name, table in state.items()
            if name != "account"
        }
        return [*split_state(state, by_part, parts)]

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        """Process rows and return the output. A rejected row becomes a fault."""
        raise NotImplementedError
