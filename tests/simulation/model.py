"""The model: what one process without faults writes if the log ends at the committed positions."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
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


class Expected(Protocol):
    """What a database must hold."""

    def difference(self, held: Contents) -> str | None:
        """Return what is wrong with the contents after a commit, in words; None: nothing."""


class Replayed:
    """For a workload with statements: what a replay of the log makes of its positions and statements."""

    def __init__(self, workload: Workload, messages: int, file: Path) -> None:
        self._plan = planned(workload)
        self._messages = messages
        self._file = file

    def difference(self, held: Contents) -> str | None:
        """Recompute the tables from the first offsets, and compare."""
        broker = filled(self._plan, self._messages, held.positions)
        with closing(open_database(f"sqlite:///{self._file}")) as database:
            found = compare(_context(self._plan, broker, database), Range())
        return None if not found.count else f"a replay differs: {found.differences[0]}"


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
