"""Rowops and trays, which are sent to labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row
from rowtide.rows.rowop import Opcode

if TYPE_CHECKING:
    from rowtide.engine.unit.label import Label

DELETE, NOP, INSERT = Opcode.DELETE, Opcode.NOP, Opcode.INSERT


class Rowop(Struct, eq=False):
    """One change: ``opcode`` applied to ``row``, made for ``label``; immutable.

    Chained labels all receive the same rowop: ``label`` is the one that it was made for.
    """

    label: Label
    opcode: Opcode
    row: Row

    def __str__(self) -> str:
        words = (self.label.name, f"OP_{self.opcode.name}", self.label.row_type.format(self.row))
        return " ".join(filter(None, words))

    def __repr__(self) -> str:
        return f"<Rowop {self}>"


class Tray:
    """An ordered sequence of rowops for labels of one unit, of any row types.

    A unit that runs a tray runs its rowops one after another.
    """

    __slots__ = ("_rowops",)

    def __init__(self, rowops: Iterable[Rowop] = ()) -> None:
        self._rowops: list[Rowop] = []
        self.extend(rowops)

    def append(self, rowop: Rowop) -> None:
        """Add a rowop at the end.

        Raises:
          ModelError: if it is not a rowop, or its label belongs to another unit than the rest of the tray.
        """
        if not isinstance(rowop, Rowop):
            raise ModelError(
                f"a tray takes rowops, not {rowop!r}", hint="label.rowop(INSERT, row) makes one."
            )
        if self._rowops and rowop.label.unit is not self._rowops[0].label.unit:
            raise ModelError(
                f'a rowop for label "{rowop.label.name}" belongs to another unit than the rest of the tray'
            )
        self._rowops.append(rowop)

    def extend(self, rowops: Iterable[Rowop]) -> None:
        """Add rowops at the end, in order."""
        for rowop in rowops:
            self.append(rowop)

    def clear(self) -> None:
        """Remove all rowops."""
        self._rowops.clear()

    def copy(self) -> Tray:
        """Return another tray with the same rowops."""
        return Tray(self._rowops)

    def __len__(self) -> int:
        return len(self._rowops)

    def __iter__(self) -> Iterator[Rowop]:
        return iter(self._rowops)
