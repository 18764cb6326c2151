"""What of a case runs inside Spark tasks; imported by workers, so without the strategies.

Each case is a program of its own: the node over entrances of any rows, put in its place. Rows of all
cases lie in one frame, so that one job does for them: each case is one more field of the key. The
columns of the frame are shared by fields of one type, those of a key by themselves.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.tree import Literal
from rowtide.flow.program import Program
from rowtide.flow.segments import Segment, segments
from rowtide.operators.contract import Fault, Place
from rowtide.plan.nodes import Filter, Merge, Node, Sort, Source, TableSource
from rowtide.plan.walk import with_inputs
from rowtide.rows.column import Column
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import COUNTER, OPCODE, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import BOOLEAN, INTEGER, Field, RowType, Type
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.frames import brought_together
from rowtide.runners.spark.stage import (
    FAULTS_STEP,
    PORT,
    REPORT,
    REPORT_STEP,
    SEQ,
    STEP,
    Definition,
    Report,
    Stage,
    entry_row_types,
    field_name,
    tray_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT = "OUT"
SIGNED, ENTERED = "$signed", "$entered"
"""A row's own origin, as ``$origin`` has its rank among the case's origins, and its own port."""
GIVEN = "case int, content binary"
BATCH_ROWS = 3
"""Rows that a stage gets at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDefinition(Definition):
    """One node over entrances; its step stands at ``place`` instead of where the program puts it."""

    place: Place

    def program(self) -> Program:
        """Build the program."""
        program = Program(self.outputs, self.partitions)
        step = program.steps[program.outputs[OUT]]
        step.place = self.place
        step.origins = self.origins()
        return program

    def origins(self) -> tuple[int, ...]:
        """Give the origins of all rows that come, in their order at one rowtime."""
        return tuple(dict.fromkeys(origin for each in self.place.port_origins for origin in each))

    def home(self) -> tuple[int, Segment]:
        """Give the segment that the node is worked off in, and its number."""
        program = self.program()
        at = program.outputs[OUT]
        return next((home, each) for home, each in enumerate(segments(program)) if at in each.steps)


def definition_of(node: Node, place: Place, ports: int) -> CaseDefinition:
    """Put a node over entrances: of partitions, where it reads those in log order, else of all rows."""
    match node:
        case Merge():
            # What feeds a merge is an operator: its account says how many rows to look for.
            entered = Filter("S", Source("S", node.row_type), Literal(True, BOOLEAN))
            over: Node = Merge(node.relation, (entered,))
        case Sort():
            over = with_inputs(node, [Source("S", node.row_type)])
        case _:
            entrances = [TableSource(f"S{at}", each.row_type) for at, each in enumerate(node.inputs)]
            over = with_inputs(node, entrances)
    return CaseDefinition({OUT: over}, {"S": range(ports)}, place=place)


@dataclass(frozen=True, slots=True)
class CaseWork:
    """One case for Spark: of each port the rows and the last bound; of a Sort the log instead."""

    definition: CaseDefinition
    rows: Sequence[Sequence[TimedRow]]
    bounds: Sequence[Bound]
    log: Sequence[TimedRow | Bound] | None = None


@dataclass(slots=True)
class Given:
    """What all tasks of one case gave: rows, and of each task its report."""

    rows: list[TimedRow]
    faults: list[Fault]
    reports: list[Report]


@dataclass(frozen=True, slots=True)
class LoggedIntake:
    """Makes rows and bounds of pickled ones, in log order."""

    row_type: RowType

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | Bound | Fault]]:
        """See ``stage.Intake``."""
        values = batch.column("value").to_pylist()
        for partition, value in zip(batch.column("partition").to_pylist(), values, strict=True):
            item = pickle.loads(value)
            yield partition, item if isinstance(item, Bound) else Tray.from_rows(self.row_type, [item])


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the fields of a case stand in the common frame: column numbers, by port and field."""

    columns: tuple[tuple[int, ...], ...]


class _Frame:
    """The common frame: its columns by type and turn; those of keys come first in their turn."""

    def __init__(self) -> None:
        self.fields: list[Field] = [Field("CASE", INTEGER)]
        self.keys: list[int] = [0]
        self._known: dict[tuple[bool, Type, int], int] = {}

    def layout(self, row_types: Sequence[RowType], keys: Sequence[Sequence[int]]) -> _Layout:
        """Find columns for the fields of a case."""
        ports = []
        for row_type, key in zip(row_types, keys, strict=True):
            turns: dict[Type, int] = {}
            columns = []
            for index, field in enumerate(row_type):
                is_key = index in key
                turn = list(key).index(index) if is_key else turns.setdefault(field.type, 0)
                if not is_key:
                    turns[field.type] += 1
                columns.append(self._column(is_key, field.type, turn))
            ports.append(tuple(columns))
        return _Layout(tuple(ports))

    def _column(self, is_key: bool, kind: Type, turn: int) -> int:
        place = (is_key, kind, turn)
        if place not in self._known:
            self._known[place] = len(self.fields)
            if is_key:
                self.keys.append(len(self.fields))
            self.fields.append(Field(f"C{len(self.fields)}", kind))
        return self._known[place]


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The work of all cases in one task: gives what the stage of each gives, as bytes."""

    definitions: Mapping[int, CaseDefinition]
    bounds: Mapping[int, Mapping[int, Bound]]
    layouts: Mapping[int, _Layout]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off one task's rows, case by case."""
        held = list(batches)
        for number, definition in self.definitions.items():
            cases = (batch.filter(pc.equal(batch.column(field_name(0, 0)), number)) for batch in held)
            mine = [self._of_case(number, batch) for batch in cases if batch.num_rows]
            home, segment = definition.home()
            if not mine and segment.keys is None:
                # What cannot be split has one task, wherever its rows are.
                continue
            stage = Stage(definition, home, self.bounds[number])
            for batch in stage.run(_sliced(mine)):
                yield _packed(number, batch)

    def _of_case(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give rows of a case as its stage's input has them."""
        columns = {name: batch.column(name) for name in (ROWTIME, COUNTER, OPCODE, SEQ)}
        columns |= {ORIGIN: batch.column(SIGNED), PORT: batch.column(ENTERED)}
        for port, fields in enumerate(self.layouts[number].columns):
            for index, at in enumerate(fields):
                columns[field_name(port, index)] = batch.column(field_name(0, at))
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True)
class _LogTasks:
    """The work of all cases that read a log: one is one partition."""

    definitions: Mapping[int, CaseDefinition]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off one task's messages, case by case."""
        held = list(batches)
        for number in sorted({each for batch in held for each in batch.column("partition").to_pylist()}):
            mine = [batch.filter(pc.equal(batch.column("partition"), number)) for batch in held]
            alone = [each.set_column(0, "partition", pa.array([0] * len(each), pa.int32())) for each in mine]
            definition = self.definitions[number]
            intake = LoggedIntake(definition.outputs[OUT].row_type)
            for batch in Stage(definition, 0, {}).run_source(intake, alone):
                yield _packed(number, batch)


def run(session: SparkSession, works: Sequence[CaseWork]) -> list[Given]:
    """Run many cases: one job for those that are split by key, one for those that read a log."""
    definitions = {number: work.definition for number, work in enumerate(works)}
    logged = {number for number, work in enumerate(works) if work.log is not None}
    split = {number: definitions[number] for number in definitions if number not in logged}
    frame, layouts = _common_frame(session, {number: works[number] for number in split})
    bounds = {number: dict(enumerate(works[number].bounds)) for number in split}
    jobs = [frame.mapInArrow(_Tasks(split, bounds, layouts), GIVEN)]
    logs = [work.log or () for work in works]
    jobs.append(messages(session, logs).mapInArrow(_LogTasks(definitions), GIVEN))
    found = [Given([], [], []) for _ in works]
    for row in (row for job in jobs for row in job.toArrow().to_pylist()):
        definition, given = definitions[row["case"]], found[row["case"]]
        batch = pa.ipc.open_stream(row["content"]).read_all()
        steps = batch.column(STEP).to_pylist()
        if steps == [REPORT_STEP]:
            given.reports.append(pickle.loads(batch.column(REPORT)[0].as_py()))
        elif steps == [FAULTS_STEP]:
            given.faults += pickle.loads(batch.column(REPORT)[0].as_py())
        else:
            program = definition.program()
            ordinal = program.steps[program.outputs[OUT]].ordinal
            given.rows += tray_of(batch, definition.outputs[OUT].row_type, ordinal).rows()
    return found


def messages(session: SparkSession, ports: Sequence[Sequence[TimedRow | Bound]]) -> DataFrame:
    """Give rows and bounds as messages, those of a port in a partition."""
    places = [(port, offset) for port, items in enumerate(ports) for offset in range(len(items))]
    frame = session.createDataFrame(
        pa.table(
            {
                "partition": pa.array([port for port, _ in places], pa.int32()),
                "offset": pa.array([offset for _, offset in places], pa.int64()),
                "value": pa.array([pickle.dumps(ports[port][at]) for port, at in places], pa.binary()),
            }
        )
    )
    return frame.repartition("partition").sortWithinPartitions("partition", "offset")


def _common_frame(
    session: SparkSession, works: Mapping[int, CaseWork]
) -> tuple[DataFrame, dict[int, _Layout]]:
    """Bring the rows of all cases together by case and key, in order of time."""
    common, layouts, row_types = _Frame(), {}, {}
    for number, work in works.items():
        segment = work.definition.home()[1]
        program = work.definition.program()
        row_types[number] = entry_row_types(program, segment.entries[0])
        is_row_wise = program.steps[segment.entries[0]].is_source
        # What looks at one row at a time may be split any way.
        keys = ((0,),) if is_row_wise else segment.keys or ((),) * len(row_types[number])
        layouts[number] = common.layout(row_types[number], keys)
    row_type = RowType(tuple(common.fields))
    parts = []
    for number, work in works.items():
        ranks = {origin: rank for rank, origin in enumerate(work.definition.origins())}
        for port, rows in enumerate(work.rows):
            if rows:
                tray = Tray.from_rows(row_types[number][port], rows)
                parts.append(_spread(number, port, tray, row_type, layouts[number].columns[port], ranks))
    frame = session.createDataFrame(pa.concat_tables(parts))
    ranks_in_order = range(max(len(work.definition.origins()) for work in works.values()))
    return brought_together(frame, [row_type], (tuple(common.keys),), ranks_in_order), layouts


def _spread(
    number: int, port: int, tray: Tray, row_type: RowType, places: Sequence[int], ranks: Mapping[int, int]
) -> pa.Table:
    """Give one port's rows of a case as rows of the common frame."""
    count = len(tray)
    arrow = {index: tray.columns[field].to_arrow() for field, index in enumerate(places)}
    arrow[0] = pa.array([number] * count, pa.int32())
    columns = {
        PORT: pa.array([0] * count, pa.int32()),
        ENTERED: pa.array([port] * count, pa.int32()),
        ROWTIME: pa.array(tray.rowtime),
        ORIGIN: pa.array([ranks[origin] for origin in tray.origin.tolist()], pa.int32()),
        COUNTER: pa.array(tray.counter),
        OPCODE: pa.array(tray.opcode),
        SIGNED: pa.array(tray.origin),
        SEQ: pa.array(range(count), pa.int64()),
    }
    for index, field in enumerate(row_type):
        empty = Column.nulls(field.type, count).to_arrow() if index not in arrow else arrow[index]
        columns[field_name(0, index)] = empty
    return pa.table(columns)


def _sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _packed(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = pa.array([sink.getvalue().to_pybytes()], pa.binary())
    return pa.RecordBatch.from_pydict({"case": pa.array([number], pa.int32()), "content": content})
