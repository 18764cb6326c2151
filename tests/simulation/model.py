"""The model: what one process without faults writes if the log ends at the committed positions."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import PartitionId
from rowtide.plan.plan import Plan
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.api import Database
from rowtide_connectors.memory.broker import MemoryBroker
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.rdbms.database import open_database
from simulation.contents import Contents, contents
from simulation.files import database_file
from simulation.messages import filled
from simulation.workloads import PIPELINE, Workload, planned

_AT_ONCE = Pace(10**9, 10**9, None, None)
_TABLES = """select name from sqlite_master
  where type = 'table' and name not like 'rowtide_snapshot%' and name not like 'sqlite_%' order by name"""


class Expected(Protocol):
    """What a database must hold."""

    def difference(self, held: Contents) -> str | None:
        """Return what is wrong with the contents after a commit, in words; None: nothing."""


_SIGNS_OF_LIFE = frozenset(
    {"epoch", "holder", "session", "beats", "claimed_at", "committed_at", "sent_at", "settled_at"}
)
"""Columns of the checkpoint that no replay reads."""


def _what_is_read(table: str, column: str) -> str | None:
    """Return what a replay may read of a column; None: nothing."""
    if table.startswith("rowtide_") and column in _SIGNS_OF_LIFE:
        return None
    match table, column:
        case "rowtide_pipelines", "commits":
            return None
        case "rowtide_statements", "commits":
            return "commits <= (select commits from rowtide_pipelines)"
    return f'"{column}"'


class Replayed:
    """For a workload with statements: what a replay of the log makes of its positions and statements.

    ``known`` are the states of databases that were compared, of all cases of the workload: some commits change only
    signs of life and snapshots, and many cases come to the same.
    """

    def __init__(self, workload: Workload, messages: int, file: Path, known: set[bytes]) -> None:
        self._plan = planned(workload)
        self._messages = messages
        self._file = file
        self._known = known

    def difference(self, held: Contents) -> str | None:
        """Recompute the tables from the first offsets, and compare."""
        state = self._state()
        if state in self._known:
            return None
        broker = filled(self._plan, self._messages, held.positions)
        with closing(open_database(f"sqlite:///{self._file}")) as database:
            found = compare(_context(self._plan, broker, database), Range())
        if found.count:
            return f"a replay differs: {found.differences[0]}"
        self._known.add(state)
        return None

    def _state(self) -> bytes:
        """Return a digest of all that a replay reads, and of the tables."""
        found = blake2b(digest_size=16)
        with closing(sqlite3.connect(self._file)) as connection:
            for (name,) in connection.execute(_TABLES).fetchall():
                columns = [column for _, column, *_ in connection.execute(f'pragma table_info("{name}")')]
                listed = ", ".join(filter(None, (_what_is_read(name, column) for column in columns)))
                # A text that waits has no number.
                rows = f"{name} where number is not null" if name == "rowtide_statements" else name
                found.update(repr(connection.execute(f"select {listed} from {rows}").fetchall()).encode())
        return found.digest()


class Model:
    """The expected contents of one workload; each is computed once."""

    def __init__(self, workload: Workload, messages: int) -> None:
        self._fresh = replace(workload, is_first=False)
        self._plan = planned(workload)
        self._messages = messages
        self._known: dict[frozenset[tuple[PartitionId, int]], Contents] = {}

    def difference(self, held: Contents) -> str | None:
        """Return what differs from a run without faults up to these positions."""
        return held.difference(self.at(held.positions))

    def at(self, positions: Mapping[PartitionId, int]) -> Contents:
        """Return the contents at these positions."""
        key = frozenset(positions.items())
        if key not in self._known:
            self._known[key] = self._computed(positions)
        return self._known[key]

    def _computed(self, positions: Mapping[PartitionId, int]) -> Contents:
        broker = filled(self._plan, self._messages, positions)
        with database_file(self._fresh) as file, closing(open_database(f"sqlite:///{file}")) as database:
            Service(_context(self._plan, broker, database)).run(until_end=True)
            with closing(sqlite3.connect(file)) as connection:
                return contents(connection, self._plan)


def _context(plan: Plan, broker: MemoryBroker, database: Database) -> PipelineContext:
    """Return the context of one process without faults, which does not wait."""
    return PipelineContext(
        name=PIPELINE,
        plan=plan,
        sources={stream.name: MemorySource(broker, stream.name) for stream in plan.foreign_streams},
        database=database,
        ledger=DatabaseLedger(database, PIPELINE),
        clock=VirtualClock(),
        pace=_AT_ONCE,
        stopping=lambda: False,
        rng=random.Random(0),
        wait=False,
        threads=False,
    )
