"""Parts for tests of the runtime: a broker, a database and a ledger in memory that fail when told to.

They keep to the protocols of ``rowtide_connectors.api`` and ``rowtide.runtime.ledger``, and nothing
in them is lost or done twice unless a test says so.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rowtide.checkpoint.ledger import (
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    PartitionPosition,
    Record,
    Resubmission,
    SnapshotEntry,
    StoredError,
)
from rowtide.errors import FaultError, SupersededError
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.contract import State
from rowtide.plan.nodes import GroupByPeriod, KeyedTable, Merge, Sort, Source
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan, Pump, Server
from rowtide.rows.types import BIGINT, TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge
from rowtide.runtime.commit.crashpoints import NoCrash
from rowtide.runtime.context import PipelineContext
from rowtide.runtime.live.live import Pace
from rowtide_connectors.api import Fetched, Messages, OffsetRange, TargetTable
from rowtide_connectors.errors import GoneError, RefusedRowError, UnavailableError


class VirtualClock:
    """Time that passes only while somebody sleeps, and a little with each look at it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Message:
    timestamp: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] | None = None


class Topic:
    """A topic in memory. ``rng`` decides how much a poll gives, and in which order of partitions."""

    def __init__(self, name: str, partitions: int, rng: random.Random | None = None) -> None:
        self.topic = name
        self.logs: list[list[Message]] = [[] for _ in range(partitions)]
        self.earliest = [0] * partitions
        self.append_times = False
        self.rng = rng
        self.fetched: list[tuple[int, tuple[int, ...]]] = []
        self.made = "first"
        self.before: Callable[[str], None] = lambda _step: None
        """Called before each step with its name; a test makes it raise."""

    def add(self, partition: int, timestamp: int, value: bytes | None, **headers: bytes) -> int:
        named = [(name.replace("_", "."), value) for name, value in headers.items()] or None
        self.logs[partition].append(Message(timestamp, value, named))
        return len(self.logs[partition]) - 1

    def ranges(self) -> Mapping[int, OffsetRange]:
        self.before("ranges")
        return {p: OffsetRange(self.earliest[p], len(log)) for p, log in enumerate(self.logs)}

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        return {
            p: next((o for o, m in enumerate(log) if m.timestamp >= timestamp_ms), len(log))
            for p, log in enumerate(self.logs)
        }

    def identity(self) -> str | None:
        self.before("identity")
        return self.made

    def is_compacted(self) -> bool:
        return False

    def has_append_times(self) -> bool:
        return self.append_times

    def reader(self, positions: Mapping[int, int]) -> TopicReader:
        return TopicReader(self, dict(positions))

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        self.before("fetch")
        self.fetched.append((partition, tuple(offsets)))
        found = {o: self.logs[partition][o] for o in offsets if o >= self.earliest[partition]}
        return {o: Fetched(message.timestamp, message.value) for o, message in found.items()}


class TopicReader:
    def __init__(self, topic: Topic, positions: dict[int, int]) -> None:
        self._topic = topic
        self._positions = positions
        self._paused: set[int] = set()

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        self._topic.before("poll")
        rng = self._topic.rng
        found = []
        partitions = [p for p in self._positions if p not in self._paused]
        if rng is not None:
            rng.shuffle(partitions)
        for partition in partitions:
            start = self._positions[partition]
            if start < self._topic.earliest[partition]:
                raise GoneError(f"offset {start} of partition {partition} is gone")
            count = max_messages if rng is None else rng.randrange(0, 40)
            got = self._topic.logs[partition][start : start + count]
            if not got:
                continue
            self._positions[partition] = start + len(got)
            found.append(
                Messages(
                    topic=self._topic.topic,
                    partition=partition,
                    offsets=np.arange(start, start + len(got), dtype=np.int64),
                    timestamps=np.array([m.timestamp for m in got], dtype=np.int64),
                    keys=[None] * len(got),
                    values=[m.value for m in got],
                    next_offset=start + len(got),
                    headers=[m.headers for m in got] if any(m.headers for m in got) else None,
                )
            )
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        self._paused.difference_update(partitions)

    def close(self) -> None:
        self._positions = {}


@dataclass
class Contents:
    """What a database holds: committed, or as a transaction sees it."""

    tables: dict[str, dict[object, tuple[object, ...]]] = field(default_factory=dict)
    appended: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    record: Record | None = None
    errors: list[ErrorRow] = field(default_factory=list)
    snapshots: list[bytes] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    accounts: dict[tuple[str, str], KeptAccount] = field(default_factory=dict)

    def copied(self) -> Contents:
        return Contents(
            {name: dict(rows) for name, rows in self.tables.items()},
            {name: list(rows) for name, rows in self.appended.items()},
            self.record,
            list(self.errors),
            list(self.snapshots),
            list(self.decisions),
            dict(self.accounts),
        )


class MemoryTransaction:
    def __init__(
        self, contents: Contents, refuses: Callable[[str, tuple[object, ...]], bool] = lambda *_: False
    ) -> None:
        self.connection = contents
        self._refuses = refuses

    def _rows(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> list[tuple[object, ...]]:
        rows = list(zip(*columns.values(), strict=True))
        for index, row in enumerate(rows):
            if self._refuses(table.name, row):
                raise RefusedRowError("it is refused", table=table.name, index=index)
        return rows

    def upsert(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        rows = self.connection.tables.setdefault(table.name, {})
        keys = list(zip(*(columns[name] for name in table.key), strict=True))
        assert len(set(keys)) == len(keys)
        rows.update(zip(keys, self._rows(table, columns), strict=True))

    def delete(self, table: TargetTable, keys: Mapping[str, Sequence[object]]) -> None:
        rows = self.connection.tables.setdefault(table.name, {})
        for key in zip(*(keys[name] for name in table.key), strict=True):
            rows.pop(key, None)

    def judges_rows(self, table: TargetTable) -> bool:
        return False

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        self._rows(table, columns)

    def append(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        self.connection.appended.setdefault(table.name, []).extend(self._rows(table, columns))


class MemoryDatabase:
    """``before`` is called before the steps begin, commit and committed; a test makes it raise."""

    def __init__(self) -> None:
        self.contents = Contents()
        self.prepared: list[str] = []
        self.refuses: Callable[[str, tuple[object, ...]], bool] = lambda _table, _row: False
        self.before: Callable[[str], None] = lambda _step: None

    @contextmanager
    def begin(self) -> Iterator[MemoryTransaction]:
        self.before("begin")
        staged = self.contents.copied()
        yield MemoryTransaction(staged, self.refuses)
        self.before("commit")
        self.contents = staged
        self.before("committed")

    def missing(self, tables: Sequence[TargetTable]) -> Sequence[str]:
        return [table.name for table in tables if table.name not in self.prepared]

    def prepare(self, tables: Sequence[TargetTable]) -> None:
        self.before("prepare")
        self.prepared = [table.name for table in tables]

    def close(self) -> None:
        pass


class MemoryLedger:
    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    def read(self) -> Record | None:
        self._database.before("read")
        return self._database.contents.record

    def read_within(self, transaction: Any) -> Record | None:
        record: Record | None = transaction.connection.record
        return record

    def claim(self, digest: str, holder: str) -> Record:
        with self._database.begin() as transaction:
            contents: Contents = transaction.connection
            record = contents.record or Record(0, "", 0, digest, (), None)
            contents.record = replace(record, epoch=record.epoch + 1, holder=holder)
        return contents.record

    def decide(self, holder: str, decide: Callable[[Record], Sequence[Decision]]) -> Record:
        with self._database.begin() as transaction:
            contents: Contents = transaction.connection
            assert contents.record is not None
            contents.record = replace(contents.record, epoch=contents.record.epoch + 1, holder=holder)
            contents.decisions.extend(decide(contents.record))
        return contents.record

    def fence(self, transaction: Any, *, epoch: int, commits: int) -> None:
        record = transaction.connection.record
        if record.epoch != epoch:
            raise SupersededError(f"epoch {record.epoch} is held by {record.holder}")
        if record.commits != commits:
            raise FaultError(f"{record.commits} commits, {commits} were expected")
        transaction.connection.record = replace(record, commits=commits + 1)

    def write_standings(self, transaction: Any, epoch: int, standings: Sequence[PartitionPosition]) -> None:
        record = transaction.connection.record
        held = {each.place: each for each in record.standings}
        for each in standings:
            before = held.get(each.place)
            assert before is None or before.next_offset <= each.next_offset, "a position went back"
            held[each.place] = each
        transaction.connection.record = replace(record, standings=tuple(held[p] for p in sorted(held)))

    def write_errors(self, transaction: Any, epoch: int, rows: Sequence[ErrorRow]) -> None:
        transaction.connection.errors.extend(rows)

    def write_decisions(self, transaction: Any, epoch: int, decisions: Sequence[Decision]) -> None:
        transaction.connection.decisions.extend(decisions)

    def decisions(self) -> Sequence[Decision]:
        return list(self._database.contents.decisions)

    def replace_plan(self, transaction: Any, digest: str, gone: Sequence[str]) -> None:
        raise AssertionError("no plan is changed here")

    def write_accounts(self, transaction: Any, accounts: Sequence[KeptAccount]) -> None:
        transaction.connection.accounts.update({(each.part, each.relation): each for each in accounts})

    def accounts(self) -> Sequence[KeptAccount]:
        return list(self._database.contents.accounts.values())

    def refused_within(self, transaction: Any, table: str) -> Sequence[tuple[int | None, str | None]]:
        raise AssertionError("nothing is compared here")

    def resubmissions(self) -> Sequence[Resubmission]:
        return []

    def resubmitted(self, number: int) -> Sequence[StoredError]:
        raise AssertionError("nothing was resubmitted")

    def write_snapshot(self, transaction: Any, epoch: int, snapshot: KeptSnapshot) -> int:
        transaction.connection.snapshots.append(
            pickle.dumps((dict(snapshot.positions), dict(snapshot.state)))
        )

    def snapshots(self) -> Sequence[SnapshotEntry]:
        stored = self._database.contents.snapshots
        return [
            SnapshotEntry(number, 0, 0, len(stored[number]), 0) for number in reversed(range(len(stored)))
        ]

    def newest_snapshot(self) -> KeptSnapshot | None:
        if not self._database.contents.snapshots:
            return None
        positions, state = pickle.loads(self._database.contents.snapshots[-1])
        state_of: Mapping[str, State] = state
        return KeptSnapshot(positions, state_of)


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


def fill(topic: Topic, rng: random.Random, messages: int = 400) -> None:
    """Add readings of about three minutes: ties, rows out of order, late ones, bad ones, bound records."""
    clock = [60_000] * len(topic.logs)
    for number in range(messages):
        partition = rng.randrange(len(topic.logs))
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

    topic: Topic
    database: MemoryDatabase = field(default_factory=MemoryDatabase)
    plan: Plan = field(default_factory=readings_plan)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def context(self, **changes: Any) -> PipelineContext:
        given: dict[str, Any] = {
            "name": "readings",
            "plan": self.plan,
            "sources": {"READINGS": self.topic},
            "database": self.database,
            "ledger": MemoryLedger(self.database),
            "clock": self.clock,
            "pace": Pace(100, 60, None, None),
            "stopping": lambda: False,
            "rng": random.Random(7),
            "threads": False,
            "crash_points": NoCrash(),
        }
        return PipelineContext(**(given | changes))

    def state(self) -> tuple[object, ...]:
        """Return everything a user can see: tables, errors in order of their messages, positions."""
        held = copy.deepcopy(self.database.contents)
        assert held.record is not None
        errors = sorted(held.errors, key=repr)
        return (
            {name: dict(sorted(rows.items(), key=repr)) for name, rows in held.tables.items()},
            held.appended,
            errors,
            held.record.standings,
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
