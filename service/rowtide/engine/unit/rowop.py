"""Rowops and trays: what is sent to labels."""

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
    """One change on its way: ``opcode`` applied to ``row``, made for ``label``. Never changed.

    When labels are chained, all of them see this very rowop: ``label`` stays the one it was made for.
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

    Sending a tray is sending its rowops one after the other, each worked off before the next.
    """

    __slots__ = ("_rowops",)

    def __init__(self, rowops: Iterable[Rowop] = ()) -> None:
        self._rowops: list[Rowop] = []
        self.extend(rowops)

    def append(self, rowop: Rowop) -> None:
        """Add a rowop at the end.

        Raises:
          ModelError: if it is for a label of another unit than those before it, or no rowop at all.
        """
        if not isinstance(rowop, Rowop):
            raise ModelError(
                f"a tray takes rowops, not {rowop!r}", hint="label.rowop(INSERT, row) makes one."
            )
        if self._rowops and rowop.label.unit is not self._rowops[0].label.unit:
            raise ModelError(
                f'a rowop for label "{rowop.label.name}" is of another unit than the rest of the tray'
            )
        self._rowops.append(rowop)

    def extend(self, rowops: Iterable[Rowop]) -> None:
        """Add rowops at the end, in order."""
        for rowop in rowops:
            self.append(rowop)

    def clear(self) -> None:
        """Take all rowops out."""
        self._rowops.clear()

    def copy(self) -> Tray:
        """Make another tray of the same rowops."""
        return Tray(self._rowops)

    def __len__(self) -> int:
        return len(self._rowops)

    def __iter__(self) -> Iterator[Rowop]:
        return iter(self._rowops)
