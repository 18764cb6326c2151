"""Rows of engine tables from statements: of the pipeline file, and those sent while the pipeline runs.

No operator waits for a table that only statements fill: it counts as complete. That stays true because a later
change has a rowtime after everything that its readers have processed (``earliest_change``). So which version of
the table a row sees depends on rowtimes alone, and a replay may apply a change as early as it likes
(docs/decisions/0022).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.errors import StatementError
from rowtide.flow.circuit import Arrival
from rowtide.flow.program import Program, Step
from rowtide.operators.contract import Operator, Reaching, State
from rowtide.plan.nodes import (
    AsOfJoin,
    GroupChanges,
    KeyedTable,
    Node,
    Sort,
    TableSource,
    below_same_rowtime,
)
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

STATEMENTS = "statements"
"""The table of a snapshot with the last statement that was applied."""
_FIRST_COUNTER = 1 << 32
"""Rows of statement n have counters from n times this on: after those of INSERT statements of the file."""


@dataclass(frozen=True, slots=True)
class LastStatement:
    """The number of the last statement that a flow has applied (0: none), and its rowtime (ms)."""

    number: int = 0
    rowtime: int = EARLIEST

    def to_state(self) -> State:
        """Return it for a snapshot; nothing for a flow without statements, as before there were any."""
        if not self.number:
            return {}
        return {STATEMENTS: pa.table({"number": [self.number], "rowtime": [self.rowtime]})}

    @staticmethod
    def of_state(state: State) -> LastStatement:
        """Return it from a snapshot."""
        rows = state[STATEMENTS].to_pylist() if STATEMENTS in state else []
        return LastStatement(rows[0]["number"], rows[0]["rowtime"]) if rows else LastStatement()


def initial(node: TableSource, step: Step) -> Arrival:
    """Return the rows of a table's INSERT statements, which exist from the first rowtime on."""
    tray = Tray.from_rows(
        node.row_type,
        [
            TimedRow(EARLIEST, step.place.origin, counter, Opcode.INSERT, row)
            for counter, row in enumerate(node.rows)
        ],
    )
    return 0, tray if node.rows else None, Bound(LATEST) if node.loaded_once else NO_BOUND


def changed_rows(node: TableSource, before: Node, step: Step, now: int) -> list[Arrival]:
    """Return what INSERT, UPDATE, DELETE and MERGE statements have changed in a table since the older plan."""
    old = before.rows if isinstance(before, TableSource) else ()
    rowtime = EARLIEST if node.loaded_once else now
    changes = [(Opcode.INSERT, row) for row in node.rows[len(old) :]]
    if node.rows[: len(old)] != old:
        gone, come = Counter(old) - Counter(node.rows), Counter(node.rows) - Counter(old)
        changes = [(Opcode.DELETE, row) for row in gone.elements()]
        changes += [(Opcode.INSERT, row) for row in come.elements()]
    rows = [
        TimedRow(rowtime, step.place.origin, counter, opcode, row)
        for counter, (opcode, row) in enumerate(changes, start=len(old))
    ]
    tray = Tray.from_rows(node.row_type, rows) if rows else None
    return [(0, tray, Bound(LATEST) if node.loaded_once else NO_BOUND)]


def changes_of(row_type: RowType, deleted: Iterable[Row], inserted: Iterable[Row]) -> Tray:
    """Return the change of a table: DELETEs, then INSERTs. ``placed`` gives it a place in time."""
    rows = [(Opcode.DELETE, row) for row in deleted] + [(Opcode.INSERT, row) for row in inserted]
    return Tray.from_rows(
        row_type, [TimedRow(EARLIEST, 0, counter, opcode, row) for counter, (opcode, row) in enumerate(rows)]
    )


def number_of(counter: int) -> int:
    """Return the number of the statement that a row of a table's entrance is from; 0: the pipeline file."""
    return counter // _FIRST_COUNTER


def placed(change: Tray, origin: int, statement: LastStatement) -> Tray:
    """Return a change of a statement with its place in time, as rows of ``origin``."""
    count = len(change)
    return Tray(
        change.row_type,
        change.columns,
        np.full(count, statement.rowtime, dtype=np.int64),
        np.full(count, origin, dtype=np.int32),
        np.arange(count, dtype=np.int64) + statement.number * _FIRST_COUNTER,
        change.opcode,
    )


def changeable(program: Program, relation: str) -> int:
    """Return the entrance of a table that statements can change.

    Raises:
      StatementError: nothing that runs reads the table, or pumps fill it.
    """
    at = program.entrances.get((relation, 0))
    tables = [
        step.node
        for step in program.steps
        if isinstance(step.node, KeyedTable) and step.node.relation == relation
    ]
    if not tables:
        raise not_kept(relation)
    source = below_same_rowtime(tables[0].input)
    if at is None or not (isinstance(source, TableSource) and source.loaded_once):
        raise StatementError(
            f'table "{relation}" is filled by pumps: a statement cannot change it while the pipeline runs',
            hint="Write to the streams that its pumps read, or keep rows that statements change in a table "
            "of their own, and join both.",
        )
    return at


def not_kept(relation: str) -> StatementError:
    """Return the error that the flow does not have a table."""
    return StatementError(
        f'no pump reads table "{relation}", so the service does not keep its rows',
        hint="A statement in the pipeline file changes it; `rowtide apply` applies a changed file.",
    )


def earliest_change(
    program: Program, operators: Mapping[int, Operator | None], entrances: Iterable[int], last: LastStatement
) -> int:
    """Return the earliest rowtime (ms) at which tables can change; EARLIEST: from the first row on.

    It is a millisecond after everything that readers of the tables have processed, and not before the
    last statement. Everything must have been drained.

    Raises:
      StatementError: a reader acts at times of its own, and has come to the end of time already.
    """
    latest = EARLIEST
    for at in _readers(program, entrances):
        node = program.steps[at].node
        if _acts_at_times(node):
            raise StatementError(
                f'"{node.relation}" depends on the time of a table that only statements fill, which has none',
                hint="Remove EVERY there: then each change comes out at once.",
            )
        reader = operators.get(at)
        if isinstance(reader, Reaching):
            latest = max(latest, reader.reached())
    return max(last.rowtime, EARLIEST if latest == EARLIEST else latest + 1)


def _acts_at_times(node: Node) -> bool:
    """Return whether a step emits changes by their bound, or judges their lateness by it."""
    return isinstance(node, Sort) or (isinstance(node, GroupChanges) and node.every_ms is not None)


def _readers(program: Program, entrances: Iterable[int]) -> Iterator[int]:
    """Yield the steps that changes from these entrances reach. Those behind a join with a stream see its rows."""
    seen: set[int] = set()
    waiting: list[int] = list(entrances)
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        yield at
        if not isinstance(program.steps[at].node, AsOfJoin):
            targets: Sequence[tuple[int, int]] = program.steps[at].targets
            waiting.extend(position for position, _ in targets)
