from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import rowtide.operators as operators
from rowtide.operators.warm import warm
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, TIMESTAMP, Field, RowType


def is_part(kernel: Any) -> bool:
    """Return whether a kernel only ever becomes a part of those that call it."""
    return bool(kernel.targetoptions.get("forceinline"))


def test_every_kernel_is_compiled_ahead_of_time() -> None:
    warm()
    modules = [
        import_module(each.name)
        for each in walk_packages(operators.__path__, f"{operators.__name__}.")
        if ".kernels." in each.name
    ]
    cold = [
        f"{module.__name__}.{name}"
        for module in modules
        for name, kernel in vars(module).items()
        # A kernel that others call is compiled with them.
        if not name.startswith("_") and hasattr(kernel, "signatures") and not is_part(kernel)
        if not kernel.signatures
    ]
    assert len(modules) > 20
    assert not cold


def test_rows_out_of_a_snapshot_are_as_kernels_were_compiled_for() -> None:
    row_type = RowType((Field("N", BIGINT), Field("X", DOUBLE), Field("T", TIMESTAMP)))
    rows = [TimedRow(at, 0, at, Opcode.INSERT, (at, float(at), at)) for at in range(3)]
    tray = Tray.from_arrow(row_type, Tray.from_rows(row_type, rows).to_arrow())
    arrays = [column.values for column in tray.columns]
    assert all(array.flags.writeable for array in (*arrays, tray.rowtime, tray.opcode, tray.counter))
