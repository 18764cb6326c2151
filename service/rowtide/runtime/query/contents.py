"""The state of a pipeline: the parts of a snapshot, and the rows of engine tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.checkpoint.parts.gathered import kept_of
from rowtide.checkpoint.parts.kept import parts_in
from rowtide.errors import UnknownRelationError
from rowtide.flow.flow import ENTRANCES, Flow
from rowtide.flow.latest_trays import LatestTrays
from rowtide.operators.merge.merge import PROMISED, QUEUE
from rowtide.rows.rowop import Opcode, Row
from rowtide.rowtime.bound import EARLIEST

_NO_ROWS = frozenset({"account", "bounds", "clock", PROMISED, "totals"})
"""Tables of a step's state that are not rows."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The state of one operator in a snapshot. ``partition`` None: it comes after the merge."""

    relation: str
    operator: str
    partition: int | None
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A new snapshot, stored with commit number ``commits``."""

    pipeline: str
    commits: int
    bytes: int
    seconds: float

    def to_json(self) -> Mapping[str, object]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TableContents:
    """Rows of an engine table, in row form. ``total`` counts all rows of the table."""

    relation: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    total: int

    def to_json(self) -> Mapping[str, object]:
        """Return it as plain values: values without a JSON form as text, times in ms, binary in base64."""
        return asdict(self) | {"rows": [[plain(value) for value in row] for row in self.rows]}


@dataclass(frozen=True, slots=True)
class LatestRow:
    """A row that a relation has given; ``op`` is + or -, for a row that goes. ``rowtime`` (ms) None: it has none."""

    op: str
    rowtime: int | None
    row: Row


@dataclass(frozen=True, slots=True)
class LatestRows:
    """The last rows of a relation, the newest last.

    ``total`` counts all that it has given since ``since_ms`` (ms since 1970), when this process began to compute it.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[LatestRow]
    total: int
    since_ms: int


def state_entries(snapshot: KeptSnapshot) -> list[StateEntry]:
    """Return the state of the operators by relation, without operators that keep nothing."""
    found = []
    for key, tables in kept_of(snapshot.state).items():
        if key == ENTRANCES:
            continue
        parts = parts_in(tables)
        # A key is: number, relation, operator and, after a slash, partition.
        name, _, partition = key.split(" ", 1)[1].rpartition("/") if "/" in key else (key, "", "")
        if not partition:
            name = key.split(" ", 1)[1]
        relation, _, operator = name.rpartition(" ")
        counts = {part: table.num_rows for part, table in tables.items() if part not in _NO_ROWS}
        if parts:
            counts = {}
            for each in (table for part in parts for table in part.tables if table.name not in _NO_ROWS):
                counts[each.name] = counts.get(each.name, 0) + each.rows
        # A merge has a queue for each input. Other operators have several tables of the same rows.
        queued = sum(count for part, count in counts.items() if part.startswith(QUEUE))
        rows = max([queued, *(count for part, count in counts.items() if not part.startswith(QUEUE))])
        size = sum(table.nbytes for table in tables.values()) + sum(part.memory for part in parts)
        found.append(StateEntry(relation, operator, int(partition) if partition else None, rows, size))
    return sorted(found, key=lambda each: (each.relation, each.operator, each.partition or 0))


def table_contents(flow: Flow, relation: str, limit: int, after: int = 0) -> TableContents:
    """Return at most ``limit`` rows of an engine table, those after the first ``after``.

    Raises:
      UnknownRelationError: the flow has no such table.
    """
    try:
        tray = flow.table(relation)
    except KeyError:
        raise UnknownRelationError(
            f'"{relation}" is not an engine table of the pipeline',
            hint="Engine tables have contents: those of CREATE TABLE that a pump reads, and those of models.",
        ) from None
    rows = [timed.row for timed in islice(tray.rows(), after, after + limit)]
    types = tuple(str(field.type) for field in tray.row_type)
    return TableContents(relation, tray.row_type.names, types, rows, len(tray))


def latest_rows(trays: LatestTrays, relation: str, limit: int) -> LatestRows:
    """Return at most ``limit`` of the last rows of a relation.

    Raises:
      KeyError: it does not run.
    """
    tray = trays.rows(relation, limit)
    rows = [
        LatestRow(
            "-" if timed.opcode == Opcode.DELETE else "+",
            None if timed.rowtime == EARLIEST else timed.rowtime,
            timed.row,
        )
        for timed in tray.rows()
    ]
    types = tuple(str(field.type) for field in tray.row_type)
    return LatestRows(tray.row_type.names, types, rows, trays.total(relation), trays.since_ms)


def plain(value: object) -> object:
    """Return a value in row form as a JSON value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value)
