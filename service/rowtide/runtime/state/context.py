"""The context of a running pipeline: its plan, its external parts, time, and limits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rowtide.checkpoint.ledger import Ledger
from rowtide.checkpoint.parts.store import PartStore
from rowtide.clock import Clock
from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide.runtime.ingest.inbox import QUEUE_BYTES, QUEUE_MESSAGES
from rowtide.runtime.ingest.intake import POLL_MESSAGES
from rowtide.runtime.leadership.watch import USUAL, Standby
from rowtide.runtime.pace import Pace
from rowtide.runtime.state.observer import Observer, Unobserved
from rowtide.runtime.state.topic_sinks import SinkOfStream
from rowtide.sql.sent_statements import SentStatements
from rowtide_connectors.api import Database, TopicSource

MAX_HELD_ROWS = 2_000_000
"""Number of waiting rows above which the partitions ahead are paused: about half a gigabyte."""
MAX_HELD_BYTES = 512 * 1024 * 1024
"""The same limit in bytes of the rows' messages, for large messages."""


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """The context of a command on one pipeline; ``PipelineIO`` makes its readers and committer.

    ``sources`` has the source of each foreign stream that a pump reads, ``sinks`` the sink of each one
    that pumps write to. ``wait`` False: a dependency
    that is down ends the service. ``recreate_tables``: missing output tables are created again even
    if positions are committed. ``threads`` False reads in the main thread, for simulations.
    ``statements`` resolves the names of statements that are sent to the running pipeline; None: they wait.
    ``text`` is that of the pipeline's file as the checkpoint keeps it.
    ``standby`` has the times of replicas, also of those that follow a process that is none; ``is_replica``: this one
    follows and takes over. ``parts`` is where a backfill keeps state in parts; None: nowhere.
    """

    name: str
    plan: Plan
    sources: Mapping[str, TopicSource]
    database: Database
    ledger: Ledger
    clock: Clock
    pace: Pace
    stopping: Callable[[], bool]
    sinks: Mapping[str, SinkOfStream] = field(default_factory=dict)
    rng: random.Random = field(default_factory=random.Random)
    wait: bool = True
    recreate_tables: bool = False
    threads: bool = True
    crash_points: CrashPoints = field(default_factory=NoCrash)
    observer: Observer = field(default_factory=Unobserved)
    max_held_rows: int = MAX_HELD_ROWS
    max_held_bytes: int = MAX_HELD_BYTES
    poll_messages: int = POLL_MESSAGES
    queue_messages: int = QUEUE_MESSAGES
    queue_bytes: int = QUEUE_BYTES
    text: str | None = None
    standby: Standby = USUAL
    is_replica: bool = False
    parts: PartStore | None = None
    statements: Callable[[str], SentStatements] | None = None
