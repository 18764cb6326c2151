"""HashSample: keep the rows of some keys, by a hash of the key that never changes.

The hash is part of the meaning of a query (docs/sql/select.md): all runs, processes and versions must compute
the same one, so it shares no code with the hashes of tables.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pyarrow as pa

from rowtide.operators.contract import OperatorSite, StepOutput
from rowtide.operators.row_wise.rowwise import RowWise
from rowtide.operators.storage.gathering import rows_where
from rowtide.plan.nodes.sample import HashSample
from rowtide.rows.arrays import Mask, Words
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound

GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
NULL_WORD = np.uint64(0x6E756C6C)
LOW_WORD = (1 << 64) - 1


class SampleOperator(RowWise):
    """Passes bounds on, and the rows whose keys have a hash below a limit."""

    def __init__(self, node: HashSample, _site: OperatorSite) -> None:
        super().__init__(node.relation)
        self._keys = node.keys
        self._limit = node.limit
        self._seed = np.uint64(node.seed & LOW_WORD)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0."""
        if tray is None or not len(tray):
            return StepOutput(None, bound)
        out = rows_where(tray, self._kept(tray))
        self._count(len(tray), len(out), 0)
        return StepOutput(out if len(out) else None, bound)

    def _kept(self, tray: Tray) -> Mask:
        if not self._limit:
            return np.zeros(len(tray), dtype=np.bool_)
        hashes = _mixed(np.full(len(tray), self._seed))
        for key in self._keys:
            hashes = _mixed(hashes ^ _words(tray.columns[key]))
        return hashes <= np.uint64(self._limit - 1)


def _mixed(words: Words) -> Words:
    """Return the output of SplitMix64 for each state."""
    words = words + GAMMA
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))


def _words(column: Column) -> Words:
    """Return a word of 64 bits for each value."""
    if column.type.is_variable_width:
        words = _checksums(column.values)
    elif column.type.is_float:
        # Adding zero makes -0.0 the other zero; all NaNs become one.
        numbers = column.values.astype(np.float64) + 0.0
        words = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    elif column.values.dtype == object:
        words = np.array([int(value or 0) & LOW_WORD for value in column.values.tolist()], dtype=np.uint64)
    else:
        words = column.values.astype(np.int64).view(np.uint64)
    return words if column.valid is None else np.where(column.valid, words, NULL_WORD)


def _checksums(values: pa.Array) -> Words:
    """Return the CRC-32 of each text's bytes; texts that repeat are read once."""
    coded = values.cast(pa.binary()).fill_null(b"").dictionary_encode()
    found = np.array([crc32(each) for each in coded.dictionary.to_pylist()], dtype=np.uint64)
    words: Words = found[coded.indices.to_numpy(zero_copy_only=False)]
    return words
