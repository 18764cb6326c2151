"""Stands in the driver for an operator whose state is in parts elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.checkpoint.parts.kept import ACCOUNT, KeptPart, from_table, to_table
from rowtide.checkpoint.snapshot import PARTS
from rowtide.errors import FaultError
from rowtide.operators.contract import Account, Operator, State, StepOutput, Want, wants_of
from rowtide.plan.nodes import Node
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound


class StateElsewhere:
    """Answers what the parts of an operator have reported; it takes no rows. See ``contract.Operator``.

    Its snapshot are the names of the parts.

    Args:
      node: the node of the operator.
      empty: the operator in its first state, which knows what it needs for a bound.
    """

    def __init__(self, node: Node, empty: Operator) -> None:
        self.account = Account()
        self.parts: Sequence[KeptPart] = ()
        self._node = node
        self._empty = empty

    @classmethod
    def of(
        cls, node: Node, empty: Operator, parts: Sequence[KeptPart], accounts: Sequence[Account]
    ) -> StateElsewhere:
        """Return what stands for the operator after its parts were kept, with the accounts of all of them."""
        found = cls(node, empty)
        found.parts = sorted(parts, key=lambda each: each.number)
        for each in accounts:
            found.account.add(each)
        return found

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Fail.

        Raises:
          FaultError: always: tasks process its rows.
        """
        raise FaultError(
            f'the state of "{self._node.relation}" is in parts: the driver cannot process its rows'
        )

    def held(self) -> int:
        """Count the rows that all parts hold."""
        return sum(each.facts.held for each in self.parts)

    def ahead(self) -> int:
        """Count the rows that wait in all parts because another input lags."""
        return sum(each.facts.ahead for each in self.parts)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """Return what the part needs whose rows are the next to leave; for a bound, what it needs without rows."""
        if bound is not None:
            return wants_of(self._empty, len(self._node.inputs), bound)
        wanted = [each.facts.wants for each in self.parts if each.facts.wants]
        return min(wanted, key=_last, default=())

    def snapshot(self) -> State:
        """Return the names of the parts."""
        return {ACCOUNT: self.account.to_arrow(), PARTS: to_table(self.parts)}

    def restore(self, state: State) -> None:
        """Take the names of parts from a snapshot."""
        self.account = Account.from_arrow(state[ACCOUNT])
        self.parts = from_table(state[PARTS])


def _last(wants: Sequence[Want]) -> int:
    return max(LATEST if want.bound is None else want.bound for want in wants)
