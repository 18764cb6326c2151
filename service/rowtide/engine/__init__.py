"""The procedural engine: labels, units, tables, aggregators and joins, row by row.

Everything a model needs is here; ``docs/engine.md`` teaches it.
"""

from rowtide.engine.errors import (
    BrokenTableError,
    ExecutionError,
    FieldValueError,
    ModelError,
    RecursionFault,
    TableError,
)
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.unit.frame import FrameMark
from rowtide.engine.unit.label import Handler, Label
from rowtide.engine.unit.loop import Loop, make_loop, make_loop_around
from rowtide.engine.unit.rowop import DELETE, INSERT, NOP, Rowop, Tray
from rowtide.engine.unit.trace import Moment, TextTracer, TraceEvent, Tracer
from rowtide.engine.unit.unit import Unit
from rowtide.rows.rowop import Opcode

__all__ = [
    "BrokenTableError",
    "DELETE",
    "ExecutionError",
    "FieldValueError",
    "FrameMark",
    "Handler",
    "INSERT",
    "Label",
    "Loop",
    "ModelError",
    "Moment",
    "NOP",
    "Opcode",
    "RecursionFault",
    "Row",
    "RowType",
    "Rowop",
    "TableError",
    "TextTracer",
    "TraceEvent",
    "Tracer",
    "Tray",
    "Unit",
    "make_loop",
    "make_loop_around",
]
