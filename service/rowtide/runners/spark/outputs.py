"""The rows of an output, taken out of their blocks as rows of Spark.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rowtide.rows.tray import tray_schema
from rowtide.rows.types import RowType
from rowtide.runners.spark.shuffle.blocks import blocks_of, unpacked
from rowtide.runners.spark.shuffle.runs import SEQ, Numbered, Piece


@dataclass(frozen=True, slots=True)
class OutputTasks:
    """The tasks that unpack the blocks of an output. Pickled to the workers."""

    row_type: RowType
    piece: Piece

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack one task's blocks."""
        for block in blocks_of(batches):
            if (rows := self.piece.rows(self.row_type, unpacked(block.cell))) is not None:
                yield self._batch(rows)

    def _batch(self, rows: Numbered) -> pa.RecordBatch:
        schema = output_schema(self.row_type)
        table = rows.tray.to_arrow().append_column(schema.field(SEQ), pa.array(rows.seq))
        (batch,) = table.cast(schema).combine_chunks().to_batches()
        return batch


def output_schema(row_type: RowType) -> pa.Schema:
    """Return the schema of an output's rows: a tray's, and ``$seq``."""
    return tray_schema(row_type).append(pa.field(SEQ, pa.int64()))
