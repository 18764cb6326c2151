"""A procedural model for the contract, and what it means row by row.

``Balances`` is written with the engine. It fails half-way through changes, in
rows and in events, so that what it is taken back to can be seen.
"""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st

from contract.operators.inputs import BIGINT, VARCHAR, Case, ordered_items, row_type_of
from contract.operators.meanings import bits
from contract.operators.model import Model as RowModel
from contract.operators.model import later
from rowtide.engine import Hashed, ModelSetup, Rowop, RowType, Table, TableType
from rowtide.errors import Reason
from rowtide.operators.contract import Place
from rowtide.plan.models import Model, ModelPort, tagged
from rowtide.plan.nodes import Source
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

AMOUNT = RowType(key="int64", amount="int64", note="string")
QUESTION = RowType(key="int64", wait="int64")
BALANCE = RowType(key="int64", total="int64")
UNLUCKY = 7


class Balances:
    """Adds amounts up by key, and answers a question after some time."""

    def __init__(self, setup: ModelSetup, unlucky: int) -> None:
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
            balances.delete(BALANCE.row(rowop.row.key))
            held = balances.find(BALANCE.row(0))
            if held is None:
                raise LookupError("nobody has anything")
            answers.insert(BALANCE.row(rowop.row.key, held.row.total))
            if rowop.row.key == 1:
                clock.at(clock.rowtime + 1, answer.rowop(Opcode.INSERT, QUESTION.row(0, 0)))

        @unit.handler(QUESTION)
        def ask(rowop: Rowop) -> None:
            clock.at(clock.rowtime + rowop.row.wait % 4, answer.adopt(rowop))

        setup.input("add", add)
        setup.input("ask", ask)
        setup.table("balances", balances)
        setup.output("answers", answers)


ADD, ASK = row_type_of((BIGINT, BIGINT, VARCHAR)), row_type_of((BIGINT, BIGINT))
ACCEPTS = (ModelPort("add", ADD), ModelPort("ask", ASK))
GIVES = (ModelPort("balances", row_type_of((BIGINT, BIGINT)), changes=True), ModelPort("answers", ASK))
NODE = Model(
    "M",
    Source("S", tagged(ACCEPTS)),
    "contract.operators.engine_models:Balances",
    (("unlucky", str(UNLUCKY)),),
    ACCEPTS,
    GIVES,
    tagged(GIVES),
)
ORIGINS = (3 << 16, 1 << 16)


@st.composite
def engine_models(draw: st.DrawFn) -> Case:
    """Rows of both inputs, tagged, some of which the model fails at."""
    opcodes = st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE))
    values = row_type_of((BIGINT, BIGINT, BIGINT, VARCHAR, BIGINT, BIGINT))
    items = draw(ordered_items(values, ORIGINS, st.integers(-3, 6), opcodes=opcodes, copies=True))
    made = tuple(each if isinstance(each, Bound) else _tagged(each, draw(st.booleans())) for each in items)
    return Case(NODE, Place(9 << 16, True, (ORIGINS,)), (made,))


def _tagged(timed: TimedRow, is_question: bool) -> TimedRow:
    """Make a row of any values one of one input."""
    _, *values = timed.row
    if is_question:
        row = (1, *[None] * 3, values[3] and values[3] % 3, values[4])
        return timed._replace(row=row, opcode=Opcode.INSERT)
    return timed._replace(row=(0, values[0] and values[0] % 3, *values[1:3], None, None))


class EngineModel(RowModel):
    """``Balances`` with a dict and a list."""

    def __init__(self, node: Model, place: Place) -> None:
        super().__init__()
        self.place = place
        self.passed = NO_BOUND
        self.reached = EARLIEST
        self.totals: dict[object, int] = {}
        self.questions: list[tuple[int, int, object]] = []
        self.asked = 0

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.run_until(timed.rowtime)
        self.reached = timed.rowtime
        number, key, amount, _, other, wait = timed.row
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
            row = timed.row[1:4] if number == 0 else timed.row[4:]
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
        self.questions.append((rowtime, self.asked, key))
        self.questions.sort(key=lambda each: each[:2])

    def run_until(self, rowtime: int) -> None:
        if rowtime == LATEST and self.questions:
            rowtime = self.questions[-1][0]
        while self.questions and self.questions[0][0] <= rowtime:
            at, _, key = self.questions.pop(0)
            if 0 not in self.totals or key == 0:
                self.faults.append(
                    ("M", Reason.FUNCTION, at, self.place.origin, self.given(), bits(None), None)
                )
                continue
            self.take_away(key, at)
            self.emit(Opcode.INSERT, at, (1, None, None, key, self.totals[0]))
            if key == 1:
                self.ask(at + 1, 0)

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
