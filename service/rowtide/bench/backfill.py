"""backfill: W2 over Parquet on Spark, as a backfill runs it, compared with the same query by hand.

``backfill`` runs the plan's stages over eight files, one per partition, and returns the rows of the
view. Its tasks read the files in the order of their offsets; a bound closes them.
``backfill-by-hand`` is the same query in Spark SQL, which ignores lateness and order and may
aggregate before the shuffle. Both write their rows as Parquet. Before the clock starts, the session
is open and has run the query once over few rows.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from rowtide.bench.events import BASE_MS, events
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.windows import W2_CHECKSUM, W2_EVENTS, W2_ROWS, W2_SQL
from rowtide.bench.workload import TRAY_ROWS, key_names
from rowtide.clock import Clock
from rowtide.operators.contract import Fault
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.session import open_session
from rowtide.runners.spark.stage import RunDefinition
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"
PARTITIONS = 8
ROW_GROUP = 100_000
FAR_FUTURE = Bound(BASE_MS * 10)
_SERVER_SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'nowhere:1');
CREATE FOREIGN STREAM events (ts TIMESTAMP, key VARCHAR(8), price DOUBLE, qty INTEGER)
  SERVER k OPTIONS (topic 'events');
"""
_BY_HAND = """
SELECT ts - ts % 60000 AS window_start, key, count(*) AS cnt, sum(qty) AS total, min(price) AS lo,
  max(price) AS hi
FROM parquet.`{path}` GROUP BY 1, 2"""
_COLUMNS = ("window_start", "key", "cnt", "total", "lo", "hi")


class ParquetIntake:
    """Reads the files of a task, each one partition, in batches. Pickled to the workers."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type

    def __call__(
        self, relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
    ) -> Iterator[tuple[int, Tray | Bound | Fault]]:
        paths = zip(batch.column("partition").to_pylist(), batch.column("value").to_pylist(), strict=True)
        for partition, path in paths:
            for rows in pq.ParquetFile(path.decode()).iter_batches(TRAY_ROWS):
                yield partition, self._tray(rows, origins[partition])
            yield partition, FAR_FUTURE

    def _tray(self, rows: pa.RecordBatch, origin: int) -> Tray:
        columns = [Column.from_arrow(field.type, rows.column(field.name.lower())) for field in self._row_type]
        stamps, offsets = np.asarray(rows.column("timestamp")), np.asarray(rows.column("offset"))
        return Tray.from_columns(self._row_type, columns, stamps, origin, offsets)


def _lake(session: SparkSession, path: Path) -> DataFrame:
    """Return the files of a folder as messages, one per task."""
    files = sorted(path.glob("*.parquet"))
    rows = [(partition, 0, str(file).encode()) for partition, file in enumerate(files)]
    # By range, because a hash puts several of few numbers into one task.
    return session.createDataFrame(rows, "partition int, offset long, value binary").repartitionByRange(
        len(rows), "partition"
    )


def backfill(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W2 in the stages of a backfill."""
    relations = dict(plan_pipeline(_SERVER_SQL + W2_SQL).relations)
    definition = RunDefinition({"W2": relations["W2"]}, {"EVENTS": range(PARTITIONS)})
    intake = ParquetIntake(relations["EVENTS"].row_type)
    session = open_session(MASTER)

    def work(path: Path, folder: str, done: ExitStack) -> DataFrame:
        run = done.enter_context(closing(SparkRun(session, definition, folder, intake)))
        run.read({"EVENTS": _lake(session, path)}, in_order=True)
        return run.output("W2").select(*(name.upper() for name in _COLUMNS))

    return _timed(count, cache, clock, work)


def by_hand(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W2 as Spark SQL."""
    session = open_session(MASTER)
    return _timed(count, cache, clock, lambda path, *_: session.sql(_BY_HAND.format(path=path)))


def _timed(
    count: int, cache: Path, clock: Clock, work: Callable[[Path, str, ExitStack], DataFrame]
) -> Outcome:
    path = _files(count, cache)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, ExitStack() as done:
        began = clock.monotonic()
        found = work(path, f"{folder}/waiting", done)
        found.write.parquet(f"{folder}/out")
        seconds = clock.monotonic() - began
        table = pyarrow.dataset.dataset(f"{folder}/out", format="parquet").to_table()
    by_name = {name.lower(): table.column(name) for name in table.column_names}
    given = pa.table({name: by_name[name] for name in _COLUMNS})
    return Outcome(seconds, given.num_rows, _check(count, given))


def _check(count: int, given: pa.Table) -> str:
    if count != W2_EVENTS:
        return "ok"
    if given.num_rows != W2_ROWS:
        return f"{given.num_rows} rows out, the reference has {W2_ROWS}"
    start, rows, total, low, high = (np.asarray(given.column(name)) for name in _COLUMNS if name != "key")
    found = (start % 10**6).sum() + rows.sum() + total.sum() / 1000 + low.sum() + high.sum()
    return close_to(float(found), W2_CHECKSUM)


def _files(count: int, cache: Path) -> Path:
    """Return the folder with the events, which is created once; event i is of partition i modulo 8."""
    folder = cache / f"lake-{count}"
    if folder.is_dir():
        return folder
    given = events(count, cache)
    names = key_names()
    draft = cache / f".lake-{count}-{uuid.uuid4().hex}"
    draft.mkdir(parents=True)
    for partition in range(PARTITIONS):
        mine = np.arange(partition, count, PARTITIONS, dtype=np.int64)
        columns = {
            "partition": pa.array(np.full(len(mine), partition, dtype=np.int32)),
            "offset": pa.array(np.arange(len(mine), dtype=np.int64)),
            "timestamp": pa.array(BASE_MS + mine),
            "ts": pa.array(given.ts[mine]),
            "key": names.take(pa.array(given.key[mine])),
            "price": pa.array(given.price[mine]),
            "qty": pa.array(given.qty[mine]),
        }
        pq.write_table(pa.table(columns), draft / f"part-{partition}.parquet", row_group_size=ROW_GROUP)
    return draft.rename(folder)


BENCHMARKS = (
    Benchmark("backfill", "W2 over Parquet, in the stages of a backfill on Spark", W2_EVENTS, backfill),
    Benchmark("backfill-by-hand", "the same query as Spark SQL", W2_EVENTS, by_hand),
)
