"""The base of row-wise operators, whose only state is their account."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rowtide.operators.contract import Account, State
from rowtide.operators.splitting import split_state
from rowtide.plan.nodes import Node


class RowWise:
    """Account and snapshot of an operator that holds no rows."""

    def __init__(self, relation: str) -> None:
        self.account = Account()
        self._relation = relation

    def held(self) -> int:
        """Return 0: no row waits."""
        return 0

    def snapshot(self) -> State:
        return {"account": self.account.to_arrow()}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        return {"account": pa.concat_tables([state["account"] for state in states])}

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        return [*split_state(state, {}, parts)]

    def _count(self, came: int, left: int, rejected: int) -> None:
        """Account for a tray: rows that neither left nor were rejected were filtered."""
        self.account.rows_in += came
        self.account.rejected += rejected
        self.account.filtered += came - left - rejected
        self.account.done += left
        self.account.rows_out += left
