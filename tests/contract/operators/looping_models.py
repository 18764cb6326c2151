"""A graph of nodes for the contract: a diamond, a timer, a loop that comes back at once and one with a delay.

It fails in rows, in timers, in what comes back at once and in what comes back later.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, cast

from hypothesis import strategies as st

from contract.operators.engine_models import EngineModel
from contract.operators.inputs import Case, ordered_items
from contract.operators.meanings import bits
from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import At, Graph, Use, run_in_model
from rowtide.errors import Reason
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Model, ModelPort, Source
from rowtide.plan.nodes.model import tagged
from rowtide.rows import types
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import BIGINT
from rowtide.rowtime.bound import LATEST, Bound

ROW = RowType(n="int64", wait="int64")
SEEN = RowType(n="int64", seen="int64")
LATER_MS = 2
SOON = {0: 7, 2: 1, 4: 3}
"""What B sends back at once for a number; 7 fails."""
LATER = {3: 2, 6: 7, 1: 0}


def numbered(n: object) -> int:
    """Return the last three bits of a row's number; fails without one."""
    return cast("int", n) % 8


class First:
    """Counts what comes, and tells of each row again after its wait."""

    def __init__(self) -> None:
        self._seen = 0

    def row(self, port: str, row: Any, at: At) -> None:
        n, wait = row  # a row of two numbers
        if numbered(n) == 7:
            raise ValueError("an unlucky number")
        self._seen += 1
        at.send((n, self._seen))
        if port == "rows" and wait is not None:
            at.schedule(at.rowtime + wait % 4, n)

    def event(self, payload: object, at: At) -> None:
        if numbered(payload) == 5:
            raise LookupError("an unlucky time")
        self._seen += 1
        at.send((payload, -self._seen))

    def snapshot(self) -> object:
        return self._seen

    def restore(self, state: object) -> None:
        self._seen = cast("int", state)


class Last:
    """Passes on what the first node gives, then the row itself, and sends back."""

    def row(self, port: str, row: Any, at: At) -> None:
        n, seen = row  # a pair
        if port == "rows":
            at.send((n, 0))
            return
        at.send((n, seen))
        if seen > 0 and numbered(n) in SOON:
            at.send((SOON[numbered(n)], None), to="soon")
        if seen > 0 and numbered(n) in LATER:
            at.send((LATER[numbered(n)], None), to="later")

    def event(self, payload: object, at: At) -> None:
        raise AssertionError(payload, at)


class Looping:
    """The model."""

    def __init__(self, setup: ModelSetup) -> None:
        graph = Graph()
        graph.source("rows")
        graph.node("first", First, ["rows"])
        graph.node("last", Last, ["first", "rows"])
        graph.loop("soon", "last", "first", use=Use.RECORDED)
        graph.loop("later", "last", "first", LATER_MS)
        run_in_model(setup, graph, {"rows": ROW}, {"last": SEEN})


def pairs(*names: str) -> types.RowType:
    return types.RowType(tuple(types.Field(name, BIGINT) for name in names))


ACCEPTS = (ModelPort("rows", pairs("n", "wait")),)
GIVES = (ModelPort("last", pairs("n", "seen")),)
NODE = Model(
    "M",
    Source("S", tagged(ACCEPTS)),
    "contract.operators.looping_models:Looping",
    (),
    ACCEPTS,
    GIVES,
    tagged(GIVES),
)
ORIGINS = (3 << 16, 1 << 16)


@st.composite
def looping_models(draw: st.DrawFn) -> Case:
    """Rows with and without a number and a wait, and a DELETE now and then, which a graph leaves out."""
    opcodes = st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE))
    items = draw(ordered_items(pairs("n", "wait"), ORIGINS, st.integers(-3, 6), opcodes=opcodes, copies=True))
    made = tuple(each if isinstance(each, Bound) else each._replace(row=(0, *each.row)) for each in items)
    return Case(NODE, OperatorSite(9 << 16, True, (ORIGINS,)), (made,))


Due = tuple[int, int, int, object]
"""Rowtime, loops before timers, number in its kind, row or number."""


class LoopingModel(EngineModel):
    """``Looping`` with a number and a list: each row, or what is due, goes all the way before the next."""

    def __init__(self, node: Model, site: OperatorSite) -> None:
        super().__init__(node, site)
        self.seen = 0
        self.due: list[Due] = []
        self.numbers = 0

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.run_until(timed.rowtime)
        self.reached = timed.rowtime
        _, n, wait = timed.row
        if timed.opcode != Opcode.INSERT or self.whole(timed.rowtime, [(1, n, wait)]):
            self.account.done += 1
        else:
            self.tell("M", Reason.FUNCTION, timed._replace(row=(n, wait)))

    def whole(self, rowtime: int, causes: Iterable[tuple[int, object, object]]) -> bool:
        """Do everything that comes of some causes (0: came back, 1: a row, 2: a timer), or nothing at all."""
        before = self.seen, copy.copy(self.due), self.numbers
        out: list[tuple[object, int]] = []
        soon: list[object] = []
        try:
            for kind, n, wait in causes:
                self.through(kind, n, wait, rowtime, out, soon)
            while soon:
                self.through(0, soon.pop(0), None, rowtime, out, soon)
        except (TypeError, ValueError, LookupError):
            self.seen, self.due, self.numbers = before
            return False
        for n, seen in out:
            self.emit(Opcode.INSERT, rowtime, (0, n, seen))
        return True

    def through(
        self,
        kind: int,
        n: object,
        wait: object,
        rowtime: int,
        out: list[tuple[object, int]],
        soon: list[object],
    ) -> None:
        if kind == 2:
            self.answer(n, out)
            return
        if numbered(n) == 7:
            raise ValueError
        self.seen += 1
        is_now = False
        if kind == 1 and wait is not None:
            is_now = cast("int", wait) % 4 == 0
            if not is_now:
                self.later(rowtime + cast("int", wait) % 4, 1, n)
        out.append((n, self.seen))
        if numbered(n) in SOON:
            soon.append(SOON[numbered(n)])
        if numbered(n) in LATER:
            self.later(rowtime + LATER_MS, 0, LATER[numbered(n)])
        if is_now:
            self.answer(n, out)
        if kind == 1:
            out.append((n, 0))

    def answer(self, n: object, out: list[tuple[object, int]]) -> None:
        if numbered(n) == 5:
            raise LookupError
        self.seen += 1
        out.append((n, -self.seen))

    def later(self, rowtime: int, kind: int, n: object) -> None:
        self.numbers += 1
        self.due.append((rowtime, kind, self.numbers, n))
        self.due.sort(key=lambda each: each[:3])

    def run_until(self, rowtime: int) -> None:
        if rowtime == LATEST and self.due:
            rowtime = self.due[-1][0]
        while self.due and self.due[0][0] <= rowtime:
            at = self.due[0][0]
            now = [each for each in self.due if each[0] == at]
            self.due = self.due[len(now) :]
            if not self.whole(at, [(2 * kind, n, None) for _, kind, _, n in now]):
                self.faults.append(
                    ("M", Reason.FUNCTION, at, self.place.origin, self.given(), bits(None), None)
                )
