"""Copy trays: the rowops that operations on a table have sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import Tray

if TYPE_CHECKING:
    from rowtide.engine.table.table import Table


@contextmanager
def copying(table: Table) -> Iterator[Tray]:
    """Collect, in the tray of a ``with`` block, a copy of each rowop that ``table`` sends within the block.

    These are the rowops of ``out`` and of the labels of its aggregators, in order. They are sent as usual,
    and are in the tray before the labels that are chained to these labels receive them.
    """
    tray = Tray()
    labels = [table.out, *(table.results(name) for name in table.aggregators)]
    copiers = [Label(table.unit, f"{each.name}.copy", each.row_type, tray.append) for each in labels]
    for label, copier in zip(labels, copiers, strict=True):
        label._followers.insert(0, copier)
    try:
        yield tray
    finally:
        for label, copier in zip(labels, copiers, strict=True):
            if copier in label._followers:
                label._followers.remove(copier)
