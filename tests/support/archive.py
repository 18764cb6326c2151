"""Archives of topics of the broker in memory: how tests make them, and read them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.runners.archived import ArchivedPart, Stamps, Wanted
from rowtide.runtime.archive.archiver import ArchiveMeans, ArchiveOrder, Archiver, ArchiveReport
from rowtide.runtime.archive.files import FileLimits
from rowtide.runtime.archive.layout import place_in
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.api import Fetched, TopicSource
from rowtide_connectors.memory.broker import MemoryBroker
from rowtide_connectors.memory.source import MemorySource
from support.spark_stand_in import StandIn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGES = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)
"""The columns of a frame of messages."""
SMALL = FileLimits(file_bytes=400, age_s=60, group_bytes=150)
"""Some messages a file, and a few a row group."""


def archive(
    sources: TopicSource | Sequence[TopicSource],
    root: Path,
    limits: FileLimits = SMALL,
    crash_points: CrashPoints | None = None,
    *,
    stopping: Callable[[], bool] = lambda: False,
    waits: bool = False,
    clock: VirtualClock | None = None,
    **order: Any,
) -> ArchiveReport:
    """Archive up to the ends."""
    given = sources if isinstance(sources, Sequence) else [sources]
    means = ArchiveMeans(
        clock or VirtualClock(),
        stopping,
        wait=waits,
        rng=random.Random(1),
        crash_points=crash_points or NoCrash(),
    )
    return Archiver(given, ArchiveOrder(root, limits, **{"until_end": True, **order}), means).run()


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.parquet") if place_in(path.name))


def rows_of(root: Path) -> list[dict[str, Any]]:
    """Return the rows of all files, with topic and date as their folders say, by topic, partition and offset."""
    found = []
    for path in files_of(root):
        topic, date = (part.partition("=")[2] for part in path.relative_to(root).parts[:2])
        table = pq.ParquetFile(path).read()
        stamps = table.column("timestamp").cast(pa.int64())
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", stamps)
        found += [{"topic": topic, "date": date, **row} for row in table.to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def messages_of(broker: MemoryBroker, topic: str) -> list[tuple[object, ...]]:
    """Return partition, offset, timestamp, key, value and headers of the messages of a topic."""
    return [
        (number, *each)
        for number, log in broker.topic(topic).items()
        for each in zip(
            log.offsets,
            log.timestamps,
            log.keys,
            log.values,
            [list(each) if each else None for each in log.headers],
            strict=True,
        )
    ]


def archived_messages(root: Path, topic: str) -> list[tuple[object, ...]]:
    """Return what ``messages_of`` returns, of an archive."""
    return [
        (
            row["partition"],
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            row["headers"] and [(pair["key"], pair["value"]) for pair in row["headers"]],
        )
        for row in rows_of(root)
        if row["topic"] == topic
    ]


class StandInArchive:
    """An archive as a stand-in for Spark reads it; see ``archived.Archive``. Parts are small."""

    def __init__(self, session: StandIn, root: Path, part: int = 7) -> None:
        self.path = str(root)
        self._session = session
        self._part = part
        self._rows = rows_of(root)

    def parts(self, topics: Collection[str]) -> list[ArchivedPart]:
        """Return parts of some offsets each."""
        found = []
        wanted = (row for row in self._rows if row["topic"] in topics)
        for (topic, partition, _), own in groupby(
            wanted, key=lambda row: (row["topic"], row["partition"], row["offset"] // self._part)
        ):
            rows = list(own)
            begins = [row["offset"] - row["holes_before"] for row in rows]
            is_whole = all(
                begin == before["offset"] + 1 for before, begin in zip(rows, begins[1:], strict=False)
            )
            latest = max(row["timestamp"] for row in rows)
            end = rows[-1]["offset"] + 1
            found.append(ArchivedPart(topic, partition, min(begins), end, latest, is_whole))
        return found

    def stamps(self, wanted: Wanted) -> Stamps:
        """Return offsets and times."""
        rows = self._of(wanted)
        columns = [
            [row["offset"] - row["holes_before"] for row in rows],
            [row["offset"] for row in rows],
            [row["timestamp"] for row in rows],
        ]
        return Stamps(*(np.array(column, dtype=np.int64) for column in columns))

    def fetch(self, topic: str, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return messages."""
        rows = self._of(Wanted(topic, partition, min(offsets), max(offsets) + 1))
        return {
            row["offset"]: Fetched(
                row["timestamp"],
                row["value"],
                row["key"],
                row["headers"] and [(pair["key"], pair["value"]) for pair in row["headers"]],
            )
            for row in rows
            if row["offset"] in offsets
        }

    def messages(self, wanted: Mapping[int, Wanted]) -> DataFrame:
        """Return a frame."""
        rows = [{**row, "partition": number} for number, each in wanted.items() for row in self._of(each)]
        table = pa.Table.from_pylist(rows, MESSAGES)
        return cast("DataFrame", self._session.createDataFrame(table))

    def _of(self, wanted: Wanted) -> list[dict[str, Any]]:
        topic, partition, begin, end = wanted
        return [
            row
            for row in self._rows
            if (row["topic"], row["partition"]) == (topic, partition) and begin <= row["offset"] < end
        ]


def source_of(broker: MemoryBroker, topic: str) -> MemorySource:
    return MemorySource(broker, topic)
