"""The procedural engine: labels, units, tables, aggregators and joins, row by row.

Everything a model needs is here; ``docs/engine.md`` teaches it.
"""

from rowtide.engine.collapse import Collapse
from rowtide.engine.driver import TextDriver
from rowtide.engine.errors import (
    BrokenTableError,
    ExecutionError,
    FieldValueError,
    ModelError,
    RecursionFault,
    TableError,
)
from rowtide.engine.expiry import Expiry
from rowtide.engine.generated import generated
from rowtide.engine.join.join_two import JoinKind, JoinTwo, UniqueKey
from rowtide.engine.join.lookup_join import LookupJoin, LookupKind
from rowtide.engine.model import ModelRun, ModelSetup, RowtimeClock, Sent
from rowtide.engine.projection import choose_fields, filter_fields, project
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.aggregate.aggregator import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    COLLAPSE,
    Aggregator,
    AggregatorCall,
    AggregatorContext,
)
from rowtide.engine.table.aggregate.functions import (
    AdditiveAggregator,
    Avg,
    Computed,
    Count,
    First,
    Fold,
    Function,
    Last,
    Max,
    Min,
    Nth,
    SimpleAggregator,
    Sum,
)
from rowtide.engine.table.copies import copying
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.index_type import Descending, Fifo, Hashed, IndexType, Ordered, Sorted
from rowtide.engine.table.table import Table
from rowtide.engine.table.table_type import TableType
from rowtide.engine.table.view import RowGroup, TableIndex
from rowtide.engine.templates import ChunkedRemoval, QueriedTable, TableQuery, equal_to, equal_where_set
from rowtide.engine.unit.frame import FrameMark
from rowtide.engine.unit.label import Handler, Label
from rowtide.engine.unit.loop import Loop, make_loop, make_loop_around
from rowtide.engine.unit.rowop import DELETE, INSERT, NOP, Rowop, Tray
from rowtide.engine.unit.scheduling import Scheduling
from rowtide.engine.unit.trace import Moment, TextTracer, TraceEvent, Tracer
from rowtide.engine.unit.unit import CountsChanges, Unit
from rowtide.rows.rowop import Opcode

__all__ = [
    "AFTER_DELETE",
    "AFTER_INSERT",
    "AdditiveAggregator",
    "Aggregator",
    "AggregatorCall",
    "AggregatorContext",
    "Avg",
    "BEFORE_MOD",
    "BrokenTableError",
    "COLLAPSE",
    "ChunkedRemoval",
    "Collapse",
    "Computed",
    "Count",
    "CountsChanges",
    "DELETE",
    "Descending",
    "ExecutionError",
    "Expiry",
    "FieldValueError",
    "Fifo",
    "First",
    "Fold",
    "FrameMark",
    "Function",
    "Handler",
    "Hashed",
    "INSERT",
    "IndexType",
    "JoinKind",
    "JoinTwo",
    "Label",
    "Last",
    "LookupJoin",
    "LookupKind",
    "Loop",
    "Max",
    "Min",
    "ModelError",
    "ModelRun",
    "ModelSetup",
    "Moment",
    "NOP",
    "Nth",
    "Opcode",
    "Ordered",
    "QueriedTable",
    "RecursionFault",
    "Row",
    "RowGroup",
    "RowHandle",
    "RowType",
    "Rowop",
    "RowtimeClock",
    "Sent",
    "Scheduling",
    "SimpleAggregator",
    "Sorted",
    "Sum",
    "Table",
    "TableError",
    "TableIndex",
    "TableQuery",
    "TableType",
    "TextDriver",
    "TextTracer",
    "TraceEvent",
    "Tracer",
    "Tray",
    "UniqueKey",
    "Unit",
    "choose_fields",
    "copying",
    "equal_to",
    "equal_where_set",
    "filter_fields",
    "generated",
    "make_loop",
    "make_loop_around",
    "project",
]
