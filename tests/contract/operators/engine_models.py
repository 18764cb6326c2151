"""A procedural model for the contract, and what it means row by row.

``Balances`` is written with the engine. It fails half-way through changes, in
rows and in events, so that what it is taken back to can be seen.
"""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st

from contract.operators.inputs import Case, ordered_items, row_type_of
from contract.operators.meanings import bits
from contract.operators.model import Model as RowModel
from contract.operators.model import later
from rowtide.engine import Hashed, ModelSetup, Rowop, RowType, Table, TableType
from rowtide.errors import Reason
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Model, ModelPort, Source
from rowtide.plan.nodes.model import tagged
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import BIGINT, VARCHAR
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

AMOUNT = RowType(key="int64", amount="int64", note="string")
QUESTION = RowType(key="int64", wait="int64")
BALANCE = RowType(key="int64", total="int64")
UNLUCKY = 7


class Balances:
    """Adds amounts up by key, and answers a question after some time.

    The answer is how much key 0 has; of a model that is split by key, how much the key itself has.
    """

    def __init__(self, setup: ModelSetup, unlucky: int, split: bool) -> None:
        unit, clock = setup.unit, setup.clock
        balances = Table(unit, "balances", TableType(BALANCE, by_key=Hashed("key")))
        answers = unit.label("answers", BALANCE)

        @unit.handler(AMOUNT)
        def add(rowop: Rowop) -> None:
            row = rowop.row
            held = balances.find(BALANCE.row(row.key))
            if rowop.opcode is Opcode.DELETE:
                balances.delete(BALANCE.row(row.key))
                return
            balances.insert(BALANCE.row(row.key, (held.row.total if held else 0) + row.amount))
            if row.amount == unlucky:
                raise ValueError("an unlucky amount")

        @unit.handler(QUESTION)
        def answer(rowop: Rowop) -> None:
            held = balances.find(BALANCE.row(rowop.row.key if split else 0))
            balances.delete(BALANCE.row(rowop.row.key))
            if held is None:
                raise LookupError("no one has anything")
            answers.insert(BALANCE.row(rowop.row.key, held.row.total))
            if rowop.row.key == 1:
                clock.at(clock.rowtime + 1, answer.rowop(Opcode.INSERT, QUESTION.row(int(split), 0)))

        @unit.handler(QUESTION)
        def ask(rowop: Rowop) -> None:
            clock.at(clock.rowtime + rowop.row.wait % 4, answer.adopt(rowop))

        key = ("key",) if split else ()
        setup.input("add", add, key=key)
        setup.input("ask", ask, key=key)
        setup.table("balances", balances)
        setup.output("answers", answers)


ADD, ASK = row_type_of((BIGINT, BIGINT, VARCHAR)), row_type_of((BIGINT, BIGINT))
GIVES = (ModelPort("balances", row_type_of((BIGINT, BIGINT)), changes=True), ModelPort("answers", ASK))


def node_of(key: tuple[int, ...]) -> Model:
    """Return the node of the model, split by its key or not."""
    accepts = (ModelPort("add", ADD, key=key), ModelPort("ask", ASK, key=key))
    options = (("unlucky", str(UNLUCKY)), ("split", "true" if key else "false"))
    path = "contract.operators.engine_models:Balances"
    return Model("M", Source("S", tagged(accepts)), path, options, accepts, GIVES, tagged(GIVES))


NODES = (node_of(()), node_of((0,)))
ORIGINS = (3 << 16, 1 << 16)


@st.composite
def engine_models(draw: st.DrawFn) -> Case:
    """Rows of both inputs, tagged, some of which the model fails at."""
    opcodes = st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE))
    values = row_type_of((BIGINT, BIGINT, BIGINT, VARCHAR, BIGINT, BIGINT))
    node = draw(st.sampled_from(NODES))
    # Models that are made at one place may come in any order when parts are merged.
    items = draw(ordered_items(values, ORIGINS, st.integers(-3, 6), opcodes=opcodes, copies=not node.key))
    made = tuple(
        each if isinstance(each, Bound) else _tagged(each, node, draw(st.booleans())) for each in items
    )
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (made,))


def _tagged(timed: TimedRow, node: Model, is_question: bool) -> TimedRow:
    """Make a row of any values one of one input."""
    number, amount, wait, note, *_ = timed.row
    key = None if number is None else cast("int", number) % 3
    keys = (key,) if node.key else ()
    if is_question:
        return timed._replace(row=(1, *keys, None, None, None, key, wait), opcode=Opcode.INSERT)
    return timed._replace(row=(0, *keys, key, amount, note, None, None))


class EngineModel(RowModel):
    """``Balances`` with a dict and a list."""

    def __init__(self, node: Model, site: OperatorSite) -> None:
        super().__init__()
        self.place = site
        self.passed = NO_BOUND
        self.reached = EARLIEST
        self.totals: dict[object, int] = {}
        self.questions: list[tuple[int, int, int, object]] = []
        self.asked = 0
        self.is_split = bool(node.key)
        self.known: list[object] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.run_until(timed.rowtime)
        self.reached = timed.rowtime
        number, *rest = timed.row
        key, amount, note, other, wait = rest[1:] if self.is_split else rest
        asker = other if number else key
        if asker not in self.known:
            self.known.append(asker)
        if number == 0:
            done = self.add(key, cast("int | None", amount), timed)
        elif wait is not None:
            self.ask(timed.rowtime + cast("int", wait) % 4, other)
            done = True
        else:
            done = False
        if done:
            self.account.done += 1
        else:
            row = (key, amount, note) if number == 0 else (other, wait)
            self.tell("M", Reason.FUNCTION, timed._replace(row=row))

    def add(self, key: object, amount: int | None, timed: TimedRow) -> bool:
        if timed.opcode == Opcode.DELETE:
            self.take_away(key, timed.rowtime)
            return True
        if amount is None:
            return False
        total = self.totals.get(key, 0) + amount
        if amount == UNLUCKY or not -(2**63) <= total < 2**63:
            return False
        self.take_away(key, timed.rowtime)
        self.totals[key] = total
        self.emit(Opcode.INSERT, timed.rowtime, (0, key, total, None, None))
        return True

    def take_away(self, key: object, rowtime: int) -> None:
        if key in self.totals:
            self.emit(Opcode.DELETE, rowtime, (0, key, self.totals.pop(key), None, None))

    def ask(self, rowtime: int, key: object) -> None:
        self.asked += 1
        # Each key's model has its own events: those of the key that was known first come first.
        place = self.known.index(key) if self.is_split else 0
        self.questions.append((rowtime, place, self.asked, key))
        self.questions.sort(key=lambda each: each[:3])

    def run_until(self, rowtime: int) -> None:
        if rowtime == LATEST and self.questions:
            rowtime = self.questions[-1][0]
        while self.questions and self.questions[0][0] <= rowtime:
            at, _, _, key = self.questions.pop(0)
            whose = key if self.is_split else 0
            if whose not in self.totals:
                self.faults.append(
                    ("M", Reason.FUNCTION, at, self.place.origin, self.given(), bits(None), None)
                )
                continue
            total = self.totals[whose]
            self.take_away(key, at)
            self.emit(Opcode.INSERT, at, (1, None, None, key, total))
            if key == 1:
                self.ask(at + 1, int(self.is_split))

    def emit(self, opcode: Opcode, rowtime: int, row: Row) -> None:
        self.give(TimedRow(rowtime, self.place.origin, self.given() + 1, opcode, row))

    def given(self) -> int:
        return len(self.out)

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)
        self.reached = max(self.reached, bound.rowtime)
        self.run_until(self.reached)

    def promised(self) -> int:
        return self.reached

    def promise(self) -> Bound:
        if self.reached in (EARLIEST, LATEST) or not self.out:
            return Bound(self.reached)
        return Bound(self.reached, self.place.origin, self.given())
