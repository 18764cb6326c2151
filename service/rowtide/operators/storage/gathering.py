"""Takes rows of trays by index, column by column: kernels instead of Arrow's ``take``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.storage.arrow_buffers import text_array, text_buffers
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.deferred import DeferredColumn
from rowtide.rows.tray import Tray

BITS = {width: np.dtype(f"i{width}") for width in (1, 2, 4, 8)}
"""Integer types by width; kernels take values as these."""


def take_rows(tray: Tray, places: Int64s, rowtime: Int64s) -> Tray:
    """Return the rows at ``places``, each at most once, in that order; ``rowtime`` is theirs."""
    return Tray(
        tray.row_type,
        tuple(take_column(column, places) for column in tray.columns),
        rowtime,
        _take_mostly_equal(tray.origin, places),
        take_values(tray.counter, places),
        _take_mostly_equal(tray.opcode, places),
    )


def rows_where(tray: Tray, mask: Mask) -> Tray:
    """Do the same as ``Tray.where``. A field that is not computed yet is taken on first read."""
    places = np.flatnonzero(mask)
    if len(places) == len(tray):
        return tray
    return Tray(
        tray.row_type,
        tuple(
            column.take(places) if isinstance(column, DeferredColumn) else take_column(column, places)
            for column in tray.columns
        ),
        take_values(tray.rowtime, places),
        _take_mostly_equal(tray.origin, places),
        take_values(tray.counter, places),
        _take_mostly_equal(tray.opcode, places),
    )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive rows of a tray."""

    of: Tray
    start: int
    stop: int

    def tray(self) -> Tray:
        """Return them by themselves."""
        return self.of.slice(self.start, self.stop)


def take_rows_later(stretches: Sequence[Stretch], places: Int64s, rowtime: Int64s) -> Tray:
    """Do the same as ``take_rows`` with concatenated rows. A field is taken on first read."""
    row_type = stretches[0].of.row_type
    fields = [
        DeferredColumn(field.type, len(places), _taken(stretches, index, places))
        for index, field in enumerate(row_type)
    ]
    return Tray(
        row_type,
        tuple(fields),
        rowtime,
        _take_laid([each.of.origin[each.start : each.stop] for each in stretches], places),
        take_values(np.concatenate([each.of.counter[each.start : each.stop] for each in stretches]), places),
        _take_laid([each.of.opcode[each.start : each.stop] for each in stretches], places),
    )


def _taken(stretches: Sequence[Stretch], field: int, places: Int64s) -> Callable[[], Column]:
    def taken() -> Column:
        parts = [each.of.columns[field].slice(each.start, each.stop) for each in stretches]
        return take_column(Column.concat(parts), places)

    return taken


def take_column(column: Column, places: Int64s, times: int = 1) -> Column:
    """Return the values at ``places``, each at most ``times``, in that order."""
    valid = None if column.valid is None else take_values(column.valid, places)
    if column.type.is_variable_width:
        return Column(column.type, _take_texts(column, places, valid, times), valid)
    return Column(column.type, take_values(column.values, places), valid)


def take_values(values: NDArray[Any], places: Int64s) -> NDArray[Any]:
    """Return the values at ``places``, in that order."""
    from rowtide.operators.storage.kernels.gathering import take

    if values.dtype == object:
        return values[places]
    out = np.empty(len(places), dtype=values.dtype)
    bits = BITS[values.dtype.itemsize]
    take(np.ascontiguousarray(values).view(bits), places, out.view(bits))
    return out


def _take_mostly_equal(values: NDArray[Any], places: Int64s) -> NDArray[Any]:
    """Do the same as ``take_values`` for mostly equal values."""
    if not len(places) or (values == values[0]).all():
        return np.full(len(places), values[0], dtype=values.dtype)
    return take_values(values, places)


def _take_laid(parts: Sequence[NDArray[Any]], places: Int64s) -> NDArray[Any]:
    """Do the same as ``_take_mostly_equal`` with concatenated values."""
    first = parts[0][0]
    if all((part == first).all() for part in parts):
        return np.full(len(places), first, dtype=parts[0].dtype)
    return take_values(np.concatenate(parts), places)


def _take_texts(column: Column, places: Int64s, valid: NDArray[np.bool_] | None, times: int) -> pa.Array:
    from rowtide.operators.storage.kernels.strings import WORD, take_texts

    offsets, content = text_buffers(column.values)
    out_offsets = np.empty(len(places) + 1, dtype=np.int32)
    out = np.empty(times * int(offsets[-1] - offsets[0]) + WORD, dtype=np.uint8)
    take_texts(offsets, content, places, out_offsets, out)
    return text_array(column.type, out_offsets, out, valid)
