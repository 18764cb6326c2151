"""Rows and changes of rows, in row form."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

Row = tuple[object, ...]
"""Field values, in the order of the row type's fields."""


class Opcode(IntEnum):
    """What a rowop does to the table it reaches."""

    DELETE = -1
    NOP = 0
    INSERT = 1


class TimedRow(NamedTuple):
    """One rowop with its place in consistent time: one element of a tray, in row form.

    ``rowtime`` is milliseconds since the epoch, UTC. ``origin`` is the source
    partition or stateful node that made the row and ``counter`` its number
    there (for a source partition: the offset); together they break ties
    (docs/sql/semantics.md#merge-order).
    """

    rowtime: int
    origin: int
    counter: int
    opcode: int
    row: Row
