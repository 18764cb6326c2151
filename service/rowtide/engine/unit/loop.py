"""Topological loops: a body that runs repeatedly without deeper nesting.

A call of ``begin`` starts the loop and returns after the last turn. Each turn
runs ``turn``; the body requests another one with ``again``. In a unit with
shared frames ``begin`` and ``turn`` are the same label.
"""

from __future__ import annotations

from rowtide.engine.row_type import Row, RowType
from rowtide.engine.unit.frame import FrameMark
from rowtide.engine.unit.label import Handler, Label
from rowtide.engine.unit.rowop import Rowop
from rowtide.engine.unit.scheduling import Scheduling
from rowtide.engine.unit.unit import Unit
from rowtide.rows.rowop import Opcode


class Loop:
    """The head of a loop: the labels ``begin`` and ``turn``, and the frame mark ``mark``.

    A call of ``begin`` starts the loop and returns after the last turn; ``turn`` runs once for each turn.
    Made by ``make_loop`` and ``make_loop_around``.
    """

    def __init__(
        self, unit: Unit, name: str, row_type: RowType, turn_name: str, handler: Handler | None
    ) -> None:
        self.mark = FrameMark(f"{name}.mark")

        def turn(rowop: Rowop) -> None:
            unit.set_mark(self.mark)
            if handler is not None:
                handler(rowop)

        self.turn = unit.label(f"{name}.{turn_name}", row_type, turn)
        # The mark is set on the outer frame, which outlives a turn only if the turn is called from another
        # label: ``begin``. With shared frames it is set on the frame of the call itself.
        is_careful = unit.scheduling is Scheduling.OWN_FRAMES
        self.begin = unit.label(f"{name}.begin", row_type, self.turn.forward) if is_careful else self.turn

    def again(self, opcode: Opcode, row: Row) -> None:
        """Request another turn with ``row``, to run after the current one."""
        self.turn.unit.loop_at(self.mark, self.turn.rowop(opcode, row))


def make_loop(unit: Unit, name: str, row_type: RowType, handler: Handler) -> Loop:
    """Make a loop whose turns run ``handler``; its labels are called ``name.begin`` and ``name.next``."""
    return Loop(unit, name, row_type, "next", handler)


def make_loop_around(name: str, body: Label) -> Loop:
    """Make a loop whose turns run the label ``body``.

    Its labels are called ``name.begin`` and ``name.wrapnext``.
    """
    loop = Loop(body.unit, name, body.row_type, "wrapnext", None)
    loop.turn.chain(body)
    return loop
