"""A small pipeline for tests of the runtime, on the parts in memory that fail on request."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.plan.nodes import GroupByPeriod, KeyedTable, Merge, Sort, Source
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan, Pump, Server
from rowtide.rows.types import BIGINT, TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge
from rowtide.runtime.crashpoints import NoCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.state.context import PipelineContext
from rowtide.testing.in_memory_database import Checkpoint, InMemoryDatabase
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.errors import UnavailableError

READINGS = RowType((Field("SENSOR", VARCHAR), Field("AMOUNT", BIGINT)))
MINUTES = RowType(
    (Field("MINUTE", TIMESTAMP), Field("SENSOR", VARCHAR), Field("N", BIGINT), Field("S", BIGINT))
)
WITHIN_MS = 2_000


def readings_plan(within_ms: int = WITHIN_MS) -> Plan:
    """Readings, t-sorted and merged, into: minutes (a group), latest (an engine table), log (every row)."""
    source = Source("READINGS", READINGS, foreign=True)
    merged = Merge("READINGS", (Sort("READINGS", source, within_ms),))
    minutes = GroupByPeriod(
        "MINUTES_OF",
        merged,
        Period(PeriodEdge.FLOOR, CalendarUnit.MINUTE),
        (0,),
        (AggregateCall("COUNT", None, BIGINT), AggregateCall("SUM", FieldRef(1, BIGINT), BIGINT)),
        RowType(
            (Field("MINUTE", TIMESTAMP), Field("SENSOR", VARCHAR), Field("N", BIGINT), Field("S", BIGINT))
        ),
    )
    latest = KeyedTable("LATEST_OF", merged, (0,))
    options = (("topic", "readings"), ("format", "JSON"))
    return Plan(
        servers=(Server("K", "MEMORY", ()), Server("D", "RDBMS", ())),
        foreign_streams=(ForeignStream("READINGS", READINGS, "K", options),),
        foreign_tables=(
            ForeignTable("MINUTES", minutes.row_type, (0, 1), "D", ()),
            ForeignTable("LATEST", READINGS, (0,), "D", ()),
            ForeignTable("LOG", READINGS, (), "D", ()),
        ),
        relations=(),
        pumps=(
            Pump("P_MINUTES", "MINUTES", minutes, 0),
            Pump("P_LATEST", "LATEST", latest),
            Pump("P_LOG", "LOG", merged),
        ),
    )


def fill(topic: InMemoryTopic, rng: random.Random, messages: int = 400) -> None:
    """Add readings of about three minutes: ties, rows out of order, late ones, bad ones, bound records."""
    clock = [60_000] * len(topic.partitions)
    for number in range(messages):
        partition = rng.randrange(len(topic.partitions))
        clock[partition] += rng.choice((0, 0, 0, 500, 1_500))
        timestamp = clock[partition] - rng.choice((0, 0, 0, 0, 1_000, 2_500))
        draw = rng.random()
        if draw < 0.02:
            topic.add(partition, timestamp, b"{broken")
        elif draw < 0.03:
            topic.add(partition, timestamp, None)
        elif draw < 0.04:
            topic.add(partition, timestamp, None, rowtide_bound=str(timestamp - 3_000).encode())
        elif draw < 0.05:
            topic.add(partition, timestamp, b'{"sensor":null,"amount":1}')
        else:
            topic.add(partition, timestamp, b'{"sensor":"s%d","amount":%d}' % (rng.randrange(5), number))


@dataclass
class World:
    """What outlives a process: the topic and the database."""

    topic: InMemoryTopic
    database: InMemoryDatabase = field(default_factory=InMemoryDatabase)
    plan: Plan = field(default_factory=readings_plan)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def context(self, **changes: Any) -> PipelineContext:
        given: dict[str, Any] = {
            "name": "readings",
            "plan": self.plan,
            "sources": {"READINGS": self.topic},
            "database": self.database,
            "ledger": InMemoryLedger(self.database, "readings", self.clock),
            "clock": self.clock,
            "pace": Pace(100, 60, None, None),
            "stopping": lambda: False,
            "rng": random.Random(7),
            "threads": False,
            "crash_points": NoCrash(),
        }
        return PipelineContext(**(given | changes))

    @property
    def checkpoint(self) -> Checkpoint:
        """What is committed of the pipeline."""
        return self.database.contents.checkpoints.get("readings", Checkpoint())

    def state(self) -> tuple[object, ...]:
        """Return everything a user can see: tables, errors in order of their messages, positions."""
        held, checkpoint = self.database.contents.copied(), self.checkpoint
        assert checkpoint.record is not None
        return (
            {name: dict(sorted(rows.items(), key=repr)) for name, rows in held.tables.items()},
            held.appended,
            sorted(checkpoint.errors, key=repr),
            checkpoint.record.partition_positions,
        )


def down(failures: int, step: str) -> Callable[[str], None]:
    """Make ``step`` fail for the first ``failures`` times."""
    left = failures

    def before(name: str) -> None:
        nonlocal left
        if name == step and left:
            left -= 1
            raise UnavailableError(f"{step} is refused", hint="Start it.")

    return before
