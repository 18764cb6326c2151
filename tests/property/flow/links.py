"""What every link of a flow owes to the operator after it: order, and promises that are kept.

A link's order of one rowtime is that of the origins that can leave the step before it. Operators take
from that what a mark means (``rowtime.bound``): one that its rows have passed would take a promise back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.flow.flow import Flow
from rowtide.flow.program import Program
from rowtide.operators.contract import Gathering
from rowtide.plan.nodes import BoundPolicy, Promote, Sort, Source
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import NO_BOUND, UNMARKED, Bound

Spot = tuple[int, int, int]
"""Rowtime, rank of the origin, counter."""


class Link:
    """What has passed one port; ``take`` checks what comes next."""

    def __init__(self, name: str, order: Sequence[int]) -> None:
        self._name = name
        self._order = list(order)
        self._last: Spot | None = None
        self._bound = NO_BOUND

    def take(self, tray: Tray | None, bound: Bound) -> None:
        before = self._last
        for row in () if tray is None else tray.rows():
            spot = (row.rowtime, self._order.index(row.origin), row.counter)
            assert self._last is None or spot >= self._last, f"{self._name}: {row} is out of order"
            assert spot > self._promise(self._bound), f"{self._name}: {row} breaks {self._bound}"
            assert spot != before, f"{self._name}: {row} has the place of a row of the tray before"
            self._last = spot
        assert self._promise(bound) >= self._promise(self._bound), f"{self._name}: {bound} goes back"
        self._bound = bound
        if self._last is None or bound.rowtime != self._last[0] or bound.origin == UNMARKED:
            return
        rank = self._order.index(bound.origin)
        assert rank >= self._last[1], f"{self._name}: rows have passed {bound}"

    def _promise(self, bound: Bound) -> Spot:
        if bound.origin == UNMARKED:
            return (bound.rowtime, -1, -1)
        return (bound.rowtime, self._order.index(bound.origin), bound.counter)


class Links:
    """All links of flows of one plan whose rows come in consistent time order; they outlive a restart."""

    def __init__(self) -> None:
        self._links: dict[tuple[int, int], Link] = {}

    def watch(self, flow: Flow) -> None:
        """Check from now on whatever a flow passes on to operators that want order."""
        for at, operator in flow._circuit.operators.items():
            if operator is None or isinstance(flow.program.steps[at].node, Sort):
                continue
            for port, before in enumerate(inputs(flow.program, at)):
                if in_order(flow.program, before):
                    step = flow.program.steps[before]
                    name = f"{step.key} -> {flow.program.steps[at].key}"
                    self._links.setdefault((at, port), Link(name, step.origins))
            # Where an operator gathers, ``step`` calls ``offer``: one of them is called from outside.
            name = "offer" if isinstance(operator, Gathering) else "step"
            setattr(operator, name, self._checked(at, getattr(operator, name)))

    def _checked(self, at: int, method: Callable[[int, Tray | None, Bound], Any]) -> Callable[..., Any]:
        def take(port: int, tray: Tray | None, bound: Bound) -> Any:
            if (at, port) in self._links:
                self._links[at, port].take(tray, bound)
            return method(port, tray, bound)

        return take


def inputs(program: Program, at: int) -> list[int]:
    """Return the steps that feed one, in the order of its ports."""
    found = {
        port: before
        for before, step in enumerate(program.steps)
        for target, port in step.targets
        if target == at
    }
    return [found[port] for port in sorted(found)]


def in_order(program: Program, at: int) -> bool:
    """Return whether the rows of a step come in consistent time order: once they have been judged."""
    match program.steps[at].node:
        case Source():
            return False
        case Sort():
            return True
        case Promote(bounds=policy) if policy is not BoundPolicy.MAP:
            return False
        case _:
            return all(in_order(program, before) for before in inputs(program, at))
