"""A scenario: a pipeline, input rows and bounds in a fixed order, and the expected output.

The values of a scenario file as frozen dataclasses. Relation names and cells are
the text of the file: only a runner has the catalog that folds names, and the
column types that convert cells.

``line`` is the 1-based line of the file where a step or row begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rowtide.codec.written.times import ScenarioDay

Cell = str | None | tuple[str | None, ...]
"""One value as it is in the file; None is NULL."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """A row whose cells are in the order of the columns, after opcode and ROWTIME if it has them."""

    cells: tuple[Cell, ...]
    line: int


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row that names its columns. Other columns are NULL in input rows, and are not compared in expected rows."""

    cells: tuple[tuple[str, Cell], ...]
    line: int


ScenarioRow = ListRow | NamedRow


@dataclass(frozen=True, slots=True)
class Insert:
    """Input rows of one partition of a stream, or changes of a table."""

    relation: str
    partition: int
    rows: tuple[ScenarioRow, ...]
    line: int


@dataclass(frozen=True, slots=True)
class InsertRaw:
    """Messages for the decoder of a foreign stream; None is a message without a value.

    ``at`` is their timestamp (ms); None: the virtual wall time.
    """

    relation: str
    partition: int
    messages: tuple[bytes | None, ...]
    at: int | None
    line: int


@dataclass(frozen=True, slots=True)
class SetBound:
    """An explicit rowtime bound: the least rowtime (ms) of later rows. ``partition`` None: all partitions."""

    relation: str
    partition: int | None
    rowtime: int
    line: int


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A range of the file's text: ``start`` inclusive, ``end`` exclusive, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Expect:
    """Exactly these rows came out of a relation since its previous ``expect``.

    ``rows`` is None if the file leaves them out for ``--rewrite`` to fill in; ``span`` is the text of
    the rows, or the place for them.
    """

    relation: str
    rows: tuple[ScenarioRow, ...] | None
    ordered: bool
    tolerance: float | None
    span: TextSpan
    line: int


@dataclass(frozen=True, slots=True)
class ExpectTable:
    """Exactly these rows are the present content of a table or view, in any order."""

    relation: str
    rows: tuple[ScenarioRow, ...] | None
    tolerance: float | None
    span: TextSpan
    line: int


@dataclass(frozen=True, slots=True)
class ExpectError:
    """The step before was refused with a message that contains ``message``, and changed nothing."""

    message: str
    line: int


@dataclass(frozen=True, slots=True)
class RunSql:
    """Further statements, run in between."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class SendStatements:
    """Statements that are sent to the running pipeline, and change rows of engine tables."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class AdvanceWallclock:
    """Virtual wall time advances by ``millis``."""

    millis: int
    line: int


class RestartKind(Enum):
    """How the pipeline stops before it is recovered."""

    CLEAN = "clean"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Restart:
    """The pipeline stops and recovers; a crash loses everything not committed."""

    kind: RestartKind
    line: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit is forced."""

    line: int


ScenarioStep = (
    Insert
    | InsertRaw
    | SetBound
    | Expect
    | ExpectTable
    | ExpectError
    | RunSql
    | SendStatements
    | AdvanceWallclock
    | Restart
    | Commit
)

REFUSABLE = (Insert, InsertRaw, SetBound, RunSql, SendStatements)
"""Steps that an ``expect_error`` may follow."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """A pipeline as SQL; ``file`` is the path to name in messages, None for text of the scenario itself."""

    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class PythonPipeline:
    """A pipeline that ``module:function`` returns; the module can be in the folder of the scenario file."""

    module: str
    function: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario file, read and checked against the format, not yet against its pipeline."""

    path: Path
    name: str
    day: ScenarioDay
    pipeline: SqlText | PythonPipeline
    steps: tuple[ScenarioStep, ...]
    ignore: tuple[str, ...] = ()
    about: str | None = None
    steps_end: int = 0
    """The end of the text of the last step, in characters: ``--rewrite`` adds steps there."""

    def mentioned(self) -> dict[str, set[int]]:
        """Return the partitions that the steps mention, for each relation name as it is written."""
        partitions: dict[str, set[int]] = {}
        for step in self.steps:
            if isinstance(step, Insert | InsertRaw | SetBound):
                seen = partitions.setdefault(step.relation, set())
                if step.partition is not None:
                    seen.add(step.partition)
        return partitions

    def observed(self) -> tuple[str, ...]:
        """Return the relation names that an ``expect`` or ``expect_table`` mentions, each once, in order."""
        names = (step.relation for step in self.steps if isinstance(step, Expect | ExpectTable))
        return tuple(dict.fromkeys(names))
