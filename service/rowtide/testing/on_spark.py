"""Scenarios on Spark: the steps up to each ``expect`` are a bounded input, processed as a backfill does.

Each request for output runs the whole log of input on Spark; output rows that the
previous run did not have are new. If a row of the previous run is missing, the run
stops. In slices, the log since the previous run is cut at random instead, and each
slice continues from the state of the one before. Even a few rows are split into parts,
so rows with equal ROWTIME and different keys may change places.

Some steps need a running service. They hand the state over to the live engine,
which continues from there, as the service does after a backfill. These steps are a
restart, a recovery after a refused bound, statements in between, a bound of a view
(its place among the rows is the current position of the pipeline), and an advance
of the virtual wall time if partitions can be idle.
"""

from __future__ import annotations

import pickle
import random
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.store import PartStore
from rowtide.errors import FaultError, RowtideError
from rowtide.flow.flow import Emitted, Flow
from rowtide.flow.program import Program
from rowtide.flow.table_changes import initial
from rowtide.operators.contract import Fault, State
from rowtide.plan.nodes import Node, TableSource
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import NO_BOUND, Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.session import open_session
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runners.spark.start import Beginning, Snapshot
from rowtide.testing.batching import Batching
from rowtide.testing.live import LiveRunner
from rowtide.testing.scenario import Scenario
from rowtide.testing.versions import resolved, version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"
PARTS = 3
"""More parts than cores, and a prime number."""


@dataclass(frozen=True, slots=True)
class _Logged:
    """One entry of the log: the input of one partition of a source."""

    relation: str
    partition: int
    part: Tray | Bound


@dataclass(frozen=True, slots=True)
class Way:
    """How scenarios run on Spark.

    ``slices`` cuts the log into slices; None: each run begins with the first entry. ``few`` is as of a ``SparkRun``.
    ``parts`` is where tasks keep state in parts; None: the driver has all state.
    """

    slices: random.Random | None = None
    few: int = 0
    parts: PartStore | None = None


class LoggedIntake:
    """Converts pickled log entries to rows, inside a task."""

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | Bound | Fault]]:
        for partition, value in zip(
            batch.column("partition").to_pylist(), batch.column("value").to_pylist(), strict=True
        ):
            yield partition, pickle.loads(value)


@dataclass(slots=True)
class _Given:
    """Spark's output so far: the rows of each output as text (so that NaN equals itself), and the faults."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    faults: set[Fault] = field(default_factory=set)


class SparkFlow(Flow):
    """A flow that runs on Spark until a snapshot is restored; from then on the live engine runs it.

    Args:
      outputs: see ``Flow``.
      partitions: see ``Flow``.
      session: the Spark session.
      scratch: a folder for the state of rows that wait.
      asked: the requested outputs.
      way: how it runs.
    """

    def __init__(
        self,
        outputs: Mapping[str, Node],
        partitions: Mapping[str, Sequence[int]],
        *,
        session: SparkSession,
        scratch: str,
        asked: Sequence[str],
        way: Way,
    ) -> None:
        super().__init__(outputs, partitions)
        self._definition = RunDefinition(outputs, partitions)
        program = Program(outputs, partitions)
        self._entrances_of = {place: program.steps[at] for place, at in program.entrances.items()}
        self._session = session
        self._scratch = scratch
        self._asked = asked
        self._log: list[_Logged] = []
        self._worked = -1
        self._way = way
        self._state_before: Snapshot | None = None
        self._given = _Given()
        self._handed: Flow | None = None
        self.is_live = False

    def insert(self, relation: str, partition: int, tray: Tray) -> None:
        """Append to the log; Spark processes it when output is requested."""
        super().insert(relation, partition, tray)
        self._log.append(_Logged(relation, partition, tray))

    def bound(self, relation: str, partition: int, bound: Bound) -> None:
        if not self.is_live and (relation, partition) not in self._entrances_of:
            raise FaultError(
                f'a bound of "{relation}", which is not a source, came before the state was handed over'
            )
        super().bound(relation, partition, bound)
        self._log.append(_Logged(relation, partition, bound))

    def drain(self) -> Emitted:
        # Spark's output comes from ``work_off``.
        return super().drain() if self.is_live else Emitted({})

    def work_off(self) -> list[Emitted]:
        """Run the log on Spark, and return the new output, with the faults of each step separate.

        Raises:
          FaultError: a row or fault of the previous run is missing.
        """
        if self.is_live or self._worked == len(self._log):
            return []
        if self._way.slices is not None:
            return self._work_off_slices(self._way.slices)
        trays, faults = self._run(0, len(self._log), None)
        # Without the counter: each task numbers its own rows.
        rows = {
            name: [repr((each.rowtime, each.opcode, each.row)) for each in tray.rows()]
            for name, tray in trays.items()
        }
        fresh = {name: _fresh(name, self._given.rows.get(name, ()), each) for name, each in rows.items()}
        if not self._given.faults <= set(faults):
            raise FaultError("faults that were reported before are missing on Spark")
        new = {name: [tray.take(fresh[name])] for name, tray in trays.items()}
        new_faults = [fault for fault in faults if fault not in self._given.faults]
        self._given, self._worked = _Given(rows, set(faults)), len(self._log)
        return [Emitted(new), *self._in_turn(new_faults)]

    def _work_off_slices(self, rng: random.Random) -> list[Emitted]:
        """Run the log since the last run in slices; return the output of each."""
        first, stop = max(self._worked, 0), len(self._log)
        cuts = sorted(rng.sample(range(first + 1, stop), min(rng.randrange(4), max(stop - first - 1, 0))))
        emitted: list[Emitted] = []
        for start, end in pairwise([first, *cuts, stop]):
            trays, faults = self._run(start, end, self._state_before)
            emitted += [Emitted({name: [tray] for name, tray in trays.items()}), *self._in_turn(faults)]
        self._worked = stop
        return emitted

    def _run(self, first: int, stop: int, start: Snapshot | None) -> tuple[dict[str, Tray], Sequence[Fault]]:
        """Run entries of the log; return the outputs and faults. The state after them is kept."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        parts = self._way.parts
        keeper = None if parts is None else PartKeeper(parts, uuid.uuid4().hex)
        run = SparkRun(
            self._session,
            self._definition,
            self._scratch,
            LoggedIntake(),
            few=self._way.few,
            start=Beginning(start, keeper),
        )
        try:
            run.read(self._frames(first, stop, is_first=start is None))
            trays = {name: run.rows(name) for name in self._asked}
            faults, self._handed = run.faults.read(), run.flow()
            if self._way.slices is not None:
                self._state_before = run.state()
        except RowtideError:
            raise
        except Exception as error:
            raise FaultError(f"Spark stopped: {error}") from error
        finally:
            run.close()
        return trays, faults

    def snapshot(self) -> dict[str, State]:
        """Return the state; before the handover, the state after Spark's last run."""
        return super().snapshot() if self.is_live else self._state().snapshot()

    def check(self) -> None:
        if self.is_live:
            super().check()
        else:
            self._state().check()

    def restore(self, snapshot: Mapping[str, State]) -> None:
        # This is the handover: from here on the live engine processes the rows.
        super().restore(snapshot)
        self.is_live = True

    def _state(self) -> Flow:
        if self._handed is None or self._worked != len(self._log):
            raise FaultError("the state is requested before Spark has processed everything")
        return self._handed

    def _in_turn(self, faults: Sequence[Fault]) -> list[Emitted]:
        """Return faults in the order of their input rows; faults without an input row come last."""
        turn = {
            (int(origin), int(counter)): number
            for number, each in enumerate(self._log)
            if isinstance(each.part, Tray)
            for origin, counter in zip(each.part.origin, each.part.counter, strict=True)
        }
        grouped: dict[int, list[Fault]] = {}
        for fault in faults:
            grouped.setdefault(turn.get((fault.origin, fault.counter), len(self._log)), []).append(fault)
        return [Emitted({}, grouped[number]) for number in sorted(grouped)]

    def _frames(self, first: int, stop: int, *, is_first: bool) -> dict[str, DataFrame]:
        """Return entries of the log as messages by relation.

        In the first run, tables start with the rows of their INSERT statements.
        """
        frames = {}
        log = list(enumerate(self._log))[first:stop]
        for (relation, _), step in self._entrances_of.items():
            held = [(number, each) for number, each in log if each.relation == relation]
            if isinstance(step.node, TableSource):
                if not held:
                    continue
                _, tray, bound = initial(step.node, step)
                if bound != NO_BOUND:
                    # Only INSERT statements fill this table: it has promised its last bound already.
                    continue
                if tray is not None and is_first:
                    held = [(-1, _Logged(relation, 0, tray)), *held]
            if relation not in frames:
                frames[relation] = self._frame(held)
        return frames

    def _frame(self, held: Sequence[tuple[int, _Logged]]) -> DataFrame:
        return self._session.createDataFrame(
            pa.table(
                {
                    "partition": pa.array([each.partition for _, each in held], pa.int32()),
                    "offset": pa.array([number for number, _ in held], pa.int64()),
                    "value": pa.array([pickle.dumps(each.part) for _, each in held], pa.binary()),
                }
            )
        )


def _fresh(name: str, before: Sequence[str], rows: Sequence[str]) -> NDArray[np.int64]:
    """Return the indexes of the rows that are not in ``before``, in whatever order they come.

    Raises:
      FaultError: a row of ``before`` is missing.
    """
    given = Counter(before)
    places = []
    for at, row in enumerate(rows):
        if given[row]:
            given[row] -= 1
        else:
            places.append(at)
    if given.total():
        raise FaultError(f'rows of "{name}" that were written before are missing on Spark')
    return np.array(places, dtype=np.int64)


class SparkRunner(LiveRunner):
    """See ``ScenarioRunner``.

    Raises:
      StatementError: if the pipeline is refused.
    """

    _flow: Flow

    def __init__(
        self,
        scenario: Scenario,
        batching: Batching,
        session: SparkSession,
        scratch: Path,
        way: Way,
    ) -> None:
        self._spark = session
        self._way = way
        self._scratch = scratch
        # Several tasks, each with some of the keys, do not keep the order of rows with equal ROWTIME.
        self.orders_ties = session.conf.get("spark.sql.shuffle.partitions") == "1"
        super().__init__(scenario, batching)

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        if not self._flow.reads(self._relations.resolve(relation)):
            self._hand_over()
        super().bound(relation, partition, rowtime)

    def sql(self, text: str) -> None:
        # Check first: a refused step must not hand the state over.
        version_of(self._scenario, copy(self._session).feed(text))
        self._hand_over()
        super().sql(text)

    def send(self, text: str) -> None:
        # Check first: a refused step must not hand the state over.
        self._session.sent(text)
        self._hand_over()
        super().send(text)

    def advance_wallclock(self, millis: int) -> None:
        if self._idle:
            self._hand_over()
        super().advance_wallclock(millis)

    def commit(self) -> None:
        self._work_off()
        super().commit()

    def contents(self, relation: str) -> list[Row]:
        self._work_off()
        return super().contents(relation)

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _follow(self) -> None:
        """Do nothing: partitions become idle only when the wall time advances, after the handover."""
        if not isinstance(self._flow, SparkFlow) or self._flow.is_live:
            super()._follow()

    def _work_off(self) -> None:
        if isinstance(self._flow, SparkFlow):
            for emitted in self._flow.work_off():
                self._record(emitted)

    def _hand_over(self) -> None:
        """Commit what Spark has processed, and let the live engine continue from there."""
        if isinstance(self._flow, SparkFlow) and not self._flow.is_live:
            self.restart()

    def _fresh_flow(self) -> SparkFlow:
        version = self._versions[self._version]
        # Foreign tables are always requested: a row that one refuses becomes an error row.
        asked = {*resolved(self._relations, self._scenario.observed()).values()}
        return SparkFlow(
            version.wanted,
            version.partitions,
            session=self._spark,
            scratch=str(self._scratch),
            way=self._way,
            asked=[
                name
                for name in version.wanted
                if name in asked or self._relations.foreign_table(name) is not None
            ],
        )


class SparkRunners:
    """Makes the runners that ``--runner spark`` names, all on one session; see ``RunnerFactory``.

    ``slices`` cuts the input of scenarios into slices. ``few`` is as of a ``SparkRun``: by default even the few rows
    of a scenario are split, to test the split. ``in_parts``: tasks keep state in parts, in files.

    Raises:
      StatementError: PySpark or Java is not installed.
      TransientError: Spark does not start.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        parts: int = PARTS,
        slices: random.Random | None = None,
        few: int = 0,
        *,
        in_parts: bool = False,
    ) -> None:
        self._slices = slices
        self._few = few
        self._in_parts = in_parts
        self._owns = session is None
        self._session = session or open_session(MASTER, parts=parts, is_brief=True)
        if self._owns:
            self._session.sparkContext.setLogLevel("ERROR")
        self._scratch = tempfile.TemporaryDirectory(prefix="rowtide-test-")

    def __call__(self, scenario: Scenario, batching: Batching) -> SparkRunner:
        scratch = Path(self._scratch.name) / "waiting"
        parts = FileParts(f"{self._scratch.name}/parts") if self._in_parts else None
        way = Way(self._slices, self._few, parts)
        return SparkRunner(scenario, batching, self._session, scratch, way)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the session, if it was opened here, and remove the files of rows that wait."""
        self._scratch.cleanup()
        if self._owns:
            self._session.stop()
