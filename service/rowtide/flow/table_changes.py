"""Rows of engine tables from statements: of the pipeline file, and those sent while the pipeline runs.

No operator waits for a table that only statements fill: it counts as complete. That stays true because a later
change has a rowtime after everything that its readers have processed (``earliest_change``). So which version of
the table a row sees depends on rowtimes alone, and a replay may apply a change as early as it likes
(docs/decisions/0022).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from rowtide.errors import StatementError
from rowtide.flow.circuit import Arrival
from rowtide.flow.program import Program, Step
from rowtide.operators.contract import HoldsTable, Operator, Reaching, State
from rowtide.plan.nodes import (
    AsOfJoin,
    CommittedTable,
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
"""Rows of statement n have n times this as counter: after those of INSERT statements of the file."""
_OF_FILES = 1 << 31
"""Rows that changed files change after statement n have counters from this on after those of the statement."""


@dataclass(frozen=True, slots=True)
class LastStatement:
    """The number of the last statement that a flow has applied (0: none), and its rowtime (ms).

    ``of_files`` is the number of files that have changed tables since.
    """

    number: int = 0
    rowtime: int = EARLIEST
    of_files: int = 0

    def to_state(self) -> State:
        """Return it for a snapshot; nothing for a flow without statements, as before there were any."""
        if self == LastStatement():
            return {}
        return {STATEMENTS: pa.table({name: [value] for name, value in asdict(self).items()})}

    @staticmethod
    def of_state(state: State) -> LastStatement:
        """Return it from a snapshot. Those of older versions do not have all numbers."""
        rows = state[STATEMENTS].to_pylist() if STATEMENTS in state else []
        return LastStatement(**rows[0]) if rows else LastStatement()


def initial(node: TableSource, step: Step) -> Arrival:
    """Return the rows of a table's INSERT statements, which exist from the first rowtime on."""
    tray = Tray.from_rows(
        node.row_type,
        [
            TimedRow(EARLIEST, step.place.origin, counter, Opcode.INSERT, row)
            for counter, row in enumerate(node.rows)
        ],
    )
    return 0, tray if node.rows else None, end_of(node)


def end_of(node: Node) -> Bound:
    """Return the bound that a table's statements promise: no row of them follows, or nothing."""
    if isinstance(node, CommittedTable):
        # Its rows are inserted, and the bound is set after the last one.
        return NO_BOUND
    return Bound(LATEST) if isinstance(node, TableSource) and node.loaded_once else NO_BOUND


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a changed file changes in an existing table: rows that enter at step ``at``.

    ``source`` is the entrance of the table's statements, whose own rows must not enter again; None: the new file
    has no statement for the table.
    """

    at: int
    source: int | None
    tray: Tray | None


def changed_tables(
    older: Program,
    newer: Program,
    matched: Mapping[int, int],
    operators: Mapping[int, Operator | None],
    bounds: Mapping[int, Bound],
    last: LastStatement,
) -> Iterator[TableChange]:
    """Yield what the statements of a changed file change in tables. ``newer`` has taken over the state of ``older``.

    A change takes effect at the bound of its table, and of a table that only statements fill, which has none, at
    once: operators that have come further take it at their own bound (docs/decisions/0026).
    """
    for at, step in enumerate(newer.steps):
        table, operator = step.node, operators.get(at)
        if not (isinstance(table, KeyedTable) and isinstance(operator, HoldsTable)):
            continue
        before, source = (_statements(program, table.relation) for program in (older, newer))
        if at not in matched and source not in matched:
            # A new table. Its rows enter as those of a new pipeline do.
            continue
        old = _rows(older, before) if at in matched else ()
        new = _rows(newer, source)
        entrance, row_type, origin = at, table.input.row_type, step.origins[0]
        if source is not None:
            entrance, row_type = _first_step(newer, table), newer.steps[source].node.row_type
            origin = newer.steps[source].place.origin
        tray = None
        if old != new:
            changes = changes_of(row_type, *_difference(table, old, new, operator.contents()))
            rowtime = bounds[at].rowtime if bounds[at].rowtime < LATEST else last.rowtime
            counter = last.number * _FIRST_COUNTER + _OF_FILES + last.of_files if source is not None else 0
            tray = _signed(changes, rowtime, origin, counter)
        yield TableChange(entrance, source, tray)


def _statements(program: Program, relation: str) -> int | None:
    """Return the entrance of the rows that statements give a table; None if there is none."""
    at = program.entrances.get((relation, 0))
    return at if at is not None and isinstance(program.steps[at].node, TableSource) else None


def _rows(program: Program, source: int | None) -> tuple[Row, ...]:
    node = None if source is None else program.steps[source].node
    return node.rows if isinstance(node, TableSource) else ()


def _first_step(program: Program, table: KeyedTable) -> int:
    """Return the first step behind the inputs of a table: it checks rows, or keeps them."""
    node: Node = table
    while node.inputs[0].keeps_rowtime:
        (node,) = node.inputs
    (at,) = program.positions(node)
    return at


def _only_statements_fill(table: KeyedTable) -> bool:
    source = below_same_rowtime(table.input)
    return isinstance(source, TableSource) and source.loaded_once


def _difference(
    table: KeyedTable, old: Sequence[Row], new: Sequence[Row], contents: Tray
) -> tuple[list[Row], list[Row]]:
    """Return the rows that go and those that come, given the rows of statements before and after.

    Of a key the last row counts. A row of a statement that a pump has replaced or deleted is not touched.
    """
    if not table.key:
        gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
        return list(gone.elements()), list(come.elements())
    was, wanted = ({tuple(row[at] for at in table.key): row for row in rows} for rows in (old, new))
    held = {tuple(timed.row[at] for at in table.key): timed.row for timed in contents.rows()}
    # As the table holds them: REAL, for example, has fewer digits than what was written.
    own = dict(zip(was, _as_held(contents.row_type, was.values()), strict=True))
    changed = [key for key in dict.fromkeys([*was, *wanted]) if was.get(key) != wanted.get(key)]
    if not _only_statements_fill(table):
        changed = [key for key in changed if key not in was or held.get(key) == own[key]]
    return [held[key] for key in changed if key in held], [wanted[key] for key in changed if key in wanted]


def _as_held(row_type: RowType, rows: Iterable[Row]) -> Iterator[Row]:
    return (timed.row for timed in changes_of(row_type, (), rows).rows())


def changes_of(row_type: RowType, deleted: Iterable[Row], inserted: Iterable[Row]) -> Tray:
    """Return the change of a table: DELETEs, then INSERTs. ``placed`` gives it a place in time."""
    rows = [(Opcode.DELETE, row) for row in deleted] + [(Opcode.INSERT, row) for row in inserted]
    return Tray.from_rows(row_type, [TimedRow(EARLIEST, 0, 0, opcode, row) for opcode, row in rows])


def number_of(counter: int) -> int:
    """Return the number of the statement that a row of a table's entrance is from; 0: the pipeline file."""
    return 0 if counter & _OF_FILES else counter // _FIRST_COUNTER


def placed(change: Tray, origin: int, statement: LastStatement) -> Tray:
    """Return a change of a statement with its place in time, one for all rows, as rows of ``origin``."""
    return _signed(change, statement.rowtime, origin, statement.number * _FIRST_COUNTER)


def _signed(change: Tray, rowtime: int, origin: int, counter: int) -> Tray:
    """Return a change with its place in time: its rows are one change."""
    count = len(change)
    return Tray(
        change.row_type,
        change.columns,
        np.full(count, rowtime, dtype=np.int64),
        np.full(count, origin, dtype=np.int32),
        np.full(count, counter, dtype=np.int64),
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
