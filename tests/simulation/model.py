"""The model: what one process without faults writes if the log ends at the committed positions."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import PartitionId
from rowtide.runtime.context import PipelineContext
from rowtide.runtime.live.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.rdbms.database import open_database
from simulation.contents import Contents, contents
from simulation.files import database_file
from simulation.messages import filled
from simulation.workloads import PIPELINE, Workload, planned

_AT_ONCE = Pace(10**9, 10**9, None, None)


class Model:
    """The expected contents of one workload; each is computed once."""

    def __init__(self, workload: Workload, messages: int) -> None:
        self._fresh = replace(workload, is_first=False)
        self._plan = planned(workload)
        self._messages = messages
        self._known: dict[frozenset[tuple[PartitionId, int]], Contents] = {}

    def at(self, positions: Mapping[PartitionId, int]) -> Contents:
        """Return the contents at these positions."""
        key = frozenset(positions.items())
        if key not in self._known:
            self._known[key] = self._computed(positions)
        return self._known[key]

    def _computed(self, positions: Mapping[PartitionId, int]) -> Contents:
        broker = filled(self._plan, self._messages, positions)
        with database_file(self._fresh) as file, closing(open_database(f"sqlite:///{file}")) as database:
            Service(
                PipelineContext(
                    name=PIPELINE,
                    plan=self._plan,
                    sources={
                        stream.name: MemorySource(broker, stream.name)
                        for stream in self._plan.foreign_streams
                    },
                    database=database,
                    ledger=DatabaseLedger(database, PIPELINE),
                    clock=VirtualClock(),
                    pace=_AT_ONCE,
                    stopping=lambda: False,
                    rng=random.Random(0),
                    wait=False,
                    threads=False,
                )
            ).run(until_end=True)
            with closing(sqlite3.connect(file)) as connection:
                return contents(connection, self._plan)
