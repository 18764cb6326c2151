"""What of a case runs inside Spark tasks; imported by workers, so without the strategies.

Each case is a program of its own: the node over entrances of any rows, put in its place. Its rows are put into
blocks here as a stage before would have put them, apart by key; one job processes all cases.
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
from rowtide.operators.contract import Fault, OperatorSite
from rowtide.plan.nodes import Filter, Merge, Node, Sort, Source, TableSource, with_inputs
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, RowType
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.shuffle.blocks import RUN, CellKind, blocks_of
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.shuffle.runs import Numbered, Piece, TaskInputs, numbered
from rowtide.runners.spark.slots import feeders_of
from rowtide.runners.spark.stage import RunDefinition, SegmentTask, TaskReport, entry_row_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT = "OUT"
GIVEN = "case int, content binary"
BATCH_ROWS = 3
"""Rows that a stage gets at once."""
PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDefinition(RunDefinition):
    """One node over entrances; its step is at ``place`` instead of where the program puts it.

    The steps that feed it give rows of the origins that its ports have there: the runner asks them whether
    copies of a row can meet in a merge.
    """

    place: OperatorSite

    def program(self) -> Program:
        """Build the program."""
        program = Program(self.outputs, self.partitions)
        at = program.outputs[OUT]
        step = program.steps[at]
        step.place = self.place
        step.origins = self.origins()
        for port, feeder in feeders_of(program, at).items():
            program.steps[feeder].origins = self.place.port_origins[port]
        return program

    def origins(self) -> tuple[int, ...]:
        """Return the origins of all rows that come, in their order at one rowtime."""
        return tuple(dict.fromkeys(origin for each in self.place.port_origins for origin in each))

    def home(self) -> tuple[int, Segment]:
        """Return the segment that the node is processed in, and its number."""
        program = self.program()
        at = program.outputs[OUT]
        return next((home, each) for home, each in enumerate(segments(program)) if at in each.steps)


def definition_of(node: Node, site: OperatorSite, ports: int) -> CaseDefinition:
    """Put a node over entrances: of partitions, where it reads those in log order, else of all rows."""
    match node:
        case Merge():
            # What feeds a merge is an operator: its account says how many rows to look for.
            entered = Filter("S", Source("S", node.row_type), Literal(True, BOOLEAN))
            over: Node = Merge(node.relation, (entered,))
        case Sort():
            over = with_inputs(node, [Source("S", node.row_type, in_log_order=node.is_in_log_order)])
        case _:
            entrances = [TableSource(f"S{at}", each.row_type) for at, each in enumerate(node.inputs)]
            over = with_inputs(node, entrances)
    return CaseDefinition({OUT: over}, {"S": range(ports)}, place=site)


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
    reports: list[TaskReport]


@dataclass(frozen=True, slots=True)
class LoggedIntake:
    """Makes rows and bounds of pickled ones, in log order."""

    row_type: RowType

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | Bound | Fault]]:
        values = batch.column("value").to_pylist()
        for partition, value in zip(batch.column("partition").to_pylist(), values, strict=True):
            item = pickle.loads(value)
            yield partition, item if isinstance(item, Bound) else Tray.from_rows(self.row_type, [item])


@dataclass(slots=True)
class _Kept:
    """What one task gives, in memory."""

    kept_rows: list[TimedRow]
    kept_faults: list[Fault]

    def rows(self, at: int, rows: Numbered) -> None:
        self.kept_rows += rows.tray.rows()

    def faults(self, faults: Sequence[Fault]) -> None:
        self.kept_faults += faults


@dataclass(frozen=True, slots=True)
class _CaseStage:
    """The stage of one case and its input, with the blocks of each task; none for one that reads a log."""

    stage: SegmentTask
    inputs: TaskInputs | None = None
    blocks: Sequence[pa.Table] = ()


@dataclass(frozen=True, slots=True)
class _Tasks:
    """One task of all cases: gives what the stage of each gives, as bytes."""

    stages: Mapping[int, _CaseStage]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off the part of every case that has this number."""
        for part in (part for batch in batches for part in batch.column(0).to_pylist()):
            for number, case in self.stages.items():
                if part < len(case.blocks) and case.inputs is not None:
                    kept = _Kept([], [])
                    blocks = blocks_of(case.blocks[part].to_batches())
                    report = case.stage.run(case.inputs.in_order(blocks, case.stage.bounds), kept)
                    yield _packed(number, kept, report)


@dataclass(frozen=True, slots=True)
class _LogTasks:
    """The work of all cases that read a log: one is one partition."""

    stages: Mapping[int, _CaseStage]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off one task's messages, case by case."""
        held = list(batches)
        for number in sorted({each for batch in held for each in batch.column("partition").to_pylist()}):
            mine = [batch.filter(pc.equal(batch.column("partition"), number)) for batch in held]
            alone = [each.set_column(0, "partition", pa.array([0] * len(each), pa.int32())) for each in mine]
            stage = self.stages[number].stage
            kept = _Kept([], [])
            intake = LoggedIntake(stage.definition.outputs[OUT].row_type)
            work = stage.begin_source(kept)
            for each in alone:
                for _ in work.push_messages(intake, each):
                    pass
            yield _packed(number, kept, work.report())


def run(session: SparkSession, works: Sequence[CaseWork]) -> list[Given]:
    """Run many cases: one job for those that are split by key, one for those that read a log."""
    stages = {number: _case_stage(work) for number, work in enumerate(works)}
    jobs = [session.range(0, PARTS, 1, PARTS).mapInArrow(_Tasks(stages), GIVEN)]
    logs = [work.log or () for work in works]
    jobs.append(messages(session, logs).mapInArrow(_LogTasks(stages), GIVEN))
    found = [Given([], [], []) for _ in works]
    for row in (row for job in jobs for row in job.toArrow().to_pylist()):
        rows, faults, report = pickle.loads(row["content"])
        given = found[row["case"]]
        given.rows += rows
        given.faults += faults
        given.reports.append(report)
    return found


def messages(session: SparkSession, ports: Sequence[Sequence[TimedRow | Bound]]) -> DataFrame:
    """Return rows and bounds as messages, those of a port in a partition."""
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


def _case_stage(work: CaseWork) -> _CaseStage:
    home, segment = work.definition.home()
    if work.log is not None:
        return _CaseStage(SegmentTask(work.definition, 0, {}))
    program = work.definition.program()
    (entry,) = segment.entries
    is_source = program.steps[entry].is_source
    row_types = [program.steps[entry].node.row_type] if is_source else entry_row_types(program, entry)
    # What looks at one row at a time may be split any way.
    keys = (tuple(range(len(row_types[0]))),) if is_source else segment.keys or ((),) * len(row_types)
    blocks = pa.concat_tables(
        _written(port, rows, row_types[port], keys[port]) for port, rows in enumerate(work.rows)
    ).sort_by([("first", "ascending"), ("slot", "ascending"), ("number", "ascending")])
    parts = range(PARTS if any(keys) else 1)
    stage = SegmentTask(work.definition, home, dict(enumerate(work.bounds)), in_parts=len(parts) > 1)
    pieces = {port: [Piece(port)] for port in range(len(work.rows))}
    inputs = TaskInputs(pieces, row_types, work.definition.origins(), BATCH_ROWS)
    return _CaseStage(stage, inputs, [blocks.filter(pc.equal(blocks["part"], each)) for each in parts])


def _written(port: int, rows: Sequence[TimedRow], row_type: RowType, key: tuple[int, ...]) -> pa.Table:
    """Put rows into blocks as a stage does that gives them in the place of step 0; the port is their slot."""
    given = TaskBlocks(Layout(PARTS, {0: [(port, key)]}, has_seq=True), {0: row_type})
    if rows:
        given.rows(0, numbered(Tray.from_rows(row_type, rows), None))
    found = pa.Table.from_batches(given.close(None))
    found = found.filter(pc.equal(found["kind"], CellKind.ROWS))
    return found.append_column(RUN, pa.array([0] * len(found), pa.int32()))


def _packed(number: int, kept: _Kept, report: TaskReport) -> pa.RecordBatch:
    content = pickle.dumps((kept.kept_rows, kept.kept_faults, report))
    columns = {"case": pa.array([number], pa.int32()), "content": pa.array([content], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)
