"""Files of rows for the connector ``files``: how tests write them, and pipelines that read them and die anywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import CrashAt, CrashPoints, NoCrash, SimulatedCrash, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.api import MessageSink, OutgoingMessage
from rowtide_connectors.errors import UnavailableError
from support.pipeline import process_of

Row = Mapping[str, int | str | None]
"""Of the columns ``n`` (a whole number) and ``word`` (a text)."""

AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": "long"}, {"name": "word", "type": ["null", "string"]}],
    }
)


def as_lines(rows: Sequence[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_parquet(rows: Sequence[Row], row_group: int = 7) -> bytes:
    schema = pa.schema([("n", pa.int64()), ("word", pa.string())])
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), out, row_group_size=row_group)
    return out.getvalue()


def as_avro(rows: Sequence[Row], codec: str = "deflate") -> bytes:
    out = io.BytesIO()
    # A marker that is drawn would make other bytes of the same rows.
    marker = bytes(range(16))
    fastavro.writer(out, AVRO, [dict(row) for row in rows], codec=codec, sync_interval=64, sync_marker=marker)
    return out.getvalue()


def as_zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    held: bytes = out.getvalue().to_pybytes()
    return held


KINDS: Mapping[str, Callable[[Sequence[Row]], bytes]] = {
    "jsonl": as_lines,
    "jsonl.gz": lambda rows: gzip.compress(as_lines(rows)),
    "ndjson.zst": lambda rows: as_zstd(as_lines(rows)),
    "json.bz2": lambda rows: bz2.compress(as_lines(rows)),
    "parquet": as_parquet,
    "avro": as_avro,
}
"""The bytes of rows, by the ending of the file's name."""


def lines_of(folder: Path) -> list[bytes]:
    """Return the lines of all files that a sink has written, in the order of their numbers; as a reader finds them."""
    found = [
        path
        for path in folder.rglob("*.jsonl*")
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    lines: list[bytes] = []
    for path in sorted(found, key=lambda each: each.name):
        data = path.read_bytes()
        lines += (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    return lines


class Folder:
    """A folder that files are put into under names that ascend, each with its own time of modification."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._numbers = count()

    def put(
        self,
        data: bytes,
        ending: str,
        *,
        at_ms: int = 1_000,
        partition: int | None = None,
        partitions: int = 1,
    ) -> str:
        """Write a file as a writer should, and return its name; ``partition`` chooses one that it falls into."""
        number = next(self._numbers)
        names = (f"{number:06}-{draw}.{ending}" for draw in count())
        below = self.path.name
        name = next(
            name
            for name in names
            if partition is None or zlib.crc32(f"{below}/{name}".encode()) % partitions == partition
        )
        unfinished = self.path / f"{name}.tmp"
        unfinished.write_bytes(data)
        os.utime(unfinished, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        unfinished.rename(self.path / name)
        return name


FILES_SQL = """
CREATE SERVER f FOREIGN DATA WRAPPER FILES OPTIONS (url '{folder}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/out.db');
CREATE FOREIGN STREAM rows
  (n BIGINT NOT NULL, word VARCHAR(9), ts TIMESTAMP NOT NULL OPTIONS (path '$.n', time_unit 's'))
  SERVER f OPTIONS (path 'in', partitions '2', look_every_s '0');
CREATE FOREIGN TABLE seen (n BIGINT NOT NULL, word VARCHAR(9), upto BIGINT) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO seen
  SELECT STREAM n, word, COUNT(*) OVER (ORDER BY s.ROWTIME ROWS UNBOUNDED PRECEDING) AS upto
  FROM (SELECT STREAM ts AS ROWTIME, n, word FROM rows ORDER BY ts WITHIN INTERVAL '5' SECOND) AS s;
"""
"""Rows are in order up to 5 seconds; others are late."""


@dataclass
class FilesWorld:
    """What outlives a process: the folder of files, the database, and time."""

    folder: Path
    rng: random.Random
    poll_messages: int = 7
    snapshot_rows: int | None = None
    sql: str = FILES_SQL
    clock: VirtualClock = field(default_factory=VirtualClock)
    deaths: int = 0
    n: int = 0
    listed: list[tuple[Any, ...]] = field(default_factory=list)
    """Every file that was ever seen in the list."""

    def __post_init__(self) -> None:
        self.files = Folder(self.folder / "in")

    @cached_property
    def plan(self) -> Plan:
        return plan_pipeline(self.sql.format(folder=self.folder))

    def arrive(self) -> None:
        """Put a file of some kind: good rows, late ones, broken ones, or a damaged file."""
        rows: list[Row] = []
        for _ in range(self.rng.choice((0, 1, 5, 20))):
            self.n += self.rng.choice((0, 1, 2))
            rows.append({"n": self.n - self.rng.choice((0, 0, 0, 3, 9)), "word": f"w{self.n % 7}"})
        ending = self.rng.choice(list(KINDS))
        data = KINDS[ending](rows)
        if self.rng.random() < 0.2 and ending == "jsonl":
            data += b'{"n": null}\n{broken\n'
        if self.rng.random() < 0.1:
            data = data[: len(data) // 2]
        self.files.put(data, ending, at_ms=self.clock.now_ms())

    def run(self, crash_points: CrashPoints | None = None, **changes: Any) -> None:
        """Run to the ends; dies at crash points."""
        try:
            with open_pipeline(self.plan, "p") as pipeline:
                given: dict[str, Any] = {
                    "clock": self.clock,
                    "pace": Pace(0, 10, self.snapshot_rows, None),
                    "crash_points": crash_points or NoCrash(),
                    "poll_messages": self.poll_messages,
                }
                Service(process_of(pipeline, **(given | changes))).run(until_end=True)
        finally:
            self.look_at_list()

    def run_until_done(self, crash_points: CrashPoints) -> None:
        """Run to the ends, with another process after each death."""
        while True:
            try:
                self.run(crash_points)
                return
            except SimulatedCrash:
                self.deaths += 1
                self.clock.sleep(1)

    def look_at_list(self) -> None:
        """Check that the list has only grown, without gaps."""
        listed = self.select(
            "select number, name, partition, size_bytes, modified from rowtide_listed_files order by 1"
        )
        assert listed[: len(self.listed)] == self.listed
        assert [number for number, *_ in listed] == list(range(len(listed)))
        self.listed = listed

    def select(self, text: str) -> list[tuple[Any, ...]]:
        if not (self.folder / "out.db").exists():
            return []
        with closing(sqlite3.connect(self.folder / "out.db")) as connection:
            table = text.split(" from ")[1].split(maxsplit=1)[0]
            if not connection.execute("select 1 from sqlite_master where name = ?", (table,)).fetchall():
                return []
            return connection.execute(text).fetchall()

    def outcome(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return the rows that came out, in order, and the errors."""
        return (
            self.select("select n, word, upto from seen order by rowid"),
            sorted(
                self.select(
                    "select kind, reason, partition, message_offset, rowtime, bound, raw, row_json from rowtide_errors"
                ),
                key=repr,
            ),
        )

    def at_once(self, folder: Path) -> FilesWorld:
        """Return a world in which one process reads the same files at once, in the order of the list."""
        other = FilesWorld(folder, self.rng, poll_messages=10_000, sql=self.sql)
        other.run()
        with closing(sqlite3.connect(folder / "out.db")) as connection, connection:
            connection.executemany(
                "insert into rowtide_listed_files values ('p', 'ROWS', ?, ?, ?, ?, ?, 1)", self.listed
            )
        for each in (self.folder / "in").iterdir():
            shutil.copy2(each, folder / "in")
        other.run()
        return other


class ArrivesAndDies:
    """Lets files arrive, and the process die, at any point; each not too often."""

    def __init__(self, world: FilesWorld, arrives: float = 0.05, dies: float = 0.01, most: int = 25) -> None:
        self._world = world
        self._arrives = arrives
        self._dies = dies
        self._left = most
        self._most_deaths = 12

    def reach(self, point: str) -> None:
        draw = self._world.rng.random()
        if draw < self._dies and self._world.deaths < self._most_deaths:
            raise SimulatedCrash(point)
        if draw < self._dies + self._arrives and self._left:
            self._left -= 1
            self._world.arrive()


def parquet_rows_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all files of Parquet below a folder, by their folders and in the order of their names."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith(".")):
        rows = pq.ParquetFile(path).read().to_pylist()
        found.setdefault(path.parent.relative_to(folder).as_posix(), []).extend(rows)
    return found


STEPS = ("link", "fsync", "open")
"""The calls of the operating system that a sink makes for each file."""


@contextmanager
def failing(steps: Sequence[str], rng: random.Random, share: float, *, dies: bool) -> Iterator[None]:
    """Let calls of the operating system fail, or the process die there, before or after they are done."""
    real = {step: getattr(os, step) for step in steps}

    def made(step: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            draw = rng.random()
            if draw < share:
                raise SimulatedCrash(step) if dies else OSError(5, "the disk fails")
            found = real[step](*args, **named)
            if draw < 2 * share and step != "open":
                raise SimulatedCrash(step) if dies else OSError(5, "the disk fails")
            return found

        return call

    with patch.multiple(os, **{step: made(step) for step in steps}):
        yield


@contextmanager
def taken_over_within(newer: MessageSink, rows: Sequence[OutgoingMessage], number: int) -> Iterator[None]:
    """Let another sink begin and send rows when the first file of a slow one is to get its name, which fails."""
    real = os.link
    taken: list[int | None] = []

    def late(source: Path, target: Path) -> None:
        if not taken:
            # The older one has checked that it is the owner, and is slow.
            data = source.read_bytes()
            taken.append(newer.begin())
            newer.send(rows, number)
            # What the newer one has removed as unfinished.
            source.write_bytes(data)
        real(source, target)

    with patch.object(os, "link", late), pytest.raises(UnavailableError, match="took over"):
        yield
    assert taken == [None]


class Written(Protocol):
    """A pipeline that writes rows to files."""

    def run(self, **changes: Any) -> None:
        """Run up to the end; ``changes`` are those of its context."""

    def check(self) -> None:
        """Check that each row is in one file once."""


def dies_at_a_point(make: Callable[[Path, int], Written], folder: Path, point: str) -> None:
    """Let the process die at a crash point, again and again, and check what is written."""
    for nth in (1, 2):
        writer, deaths = make(folder / str(nth), nth), 0
        for attempt in range(8):
            crash: CrashPoints = CrashAt(point, nth, raise_crash) if attempt < 5 else NoCrash()
            try:
                writer.run(crash_points=crash)
            except SimulatedCrash:
                deaths += 1
        assert deaths or nth > 1
        writer.check()


def fails_anywhere(
    make: Callable[[Path, int], Written], folder: Path, seed: int, share: float, *, dies: bool
) -> None:
    """Let a share of all calls of the operating system fail, and check what is written."""
    rng, writer, deaths = random.Random(seed), make(folder / "w", seed), 0
    for _ in range(80):
        try:
            with failing(STEPS, rng, share, dies=dies):
                writer.run()
        except SimulatedCrash:
            deaths += 1
            continue
        break
    else:
        writer.run()
    assert deaths or not dies
    writer.check()
