"""Archives of messages in files of Parquet, as Spark reads them: those of ``rowtide archive``, and others like them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rowtide.errors import StatementError
from rowtide.runners.archived import ArchivedPart, Stamps, Wanted
from rowtide.runners.spark.kafka import MESSAGE_COLUMNS
from rowtide.runners.spark.session import spark_errors
from rowtide_connectors.api import Fetched

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PART_OFFSETS = 1 << 16
"""The offsets of a part: where a time is looked for in it, the driver reads so many rows of three numbers."""
_NEEDED = ("topic", "partition", "offset", "timestamp", "value")
_HEADERS = "array<struct<key:string,value:binary>>"
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


class SparkArchive:
    """An archive below ``path``, which Spark and its workers read.

    Raises:
      StatementError: it cannot be read, or lacks a column.
    """

    def __init__(self, session: SparkSession, path: str) -> None:
        self.path = path
        self._session = session
        self._frame = _read(session, path)

    def parts(self, topics: Collection[str]) -> list[ArchivedPart]:
        """Return the parts of the partitions of these topics; see ``archived.Archive``."""
        from pyspark.sql import Window, functions

        place = ("topic", "partition", "part")
        rows = (
            self._frame.where(functions.col("topic").isin(list(topics)))
            .select(
                "topic",
                "partition",
                functions.expr(f"offset div {PART_OFFSETS}").alias("part"),
                "offset",
                functions.expr("offset - holes_before").alias("begin"),
                "timestamp",
            )
            .withColumn(
                "before", functions.lag("offset").over(Window.partitionBy(*place).orderBy("offset")) + 1
            )
        )
        found = rows.groupBy(*place).agg(
            functions.min("begin"),
            functions.max("offset") + 1,
            functions.max("timestamp"),
            functions.bool_and(functions.expr("before IS NULL OR begin = before")),
        )
        return [
            ArchivedPart(topic, partition, begin, end, latest, is_whole)
            for topic, partition, _, begin, end, latest, is_whole in self._collect(found, "parts")
        ]

    def stamps(self, wanted: Wanted) -> Stamps:
        """Return offsets and times of messages."""
        frame = self._frame.where(_is_of(wanted)).selectExpr("offset - holes_before", "offset", "timestamp")
        rows = np.array(self._collect(frame, "times"), dtype=np.int64).reshape(-1, 3)
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
        return Stamps(rows[:, 0], rows[:, 1], rows[:, 2])

    def fetch(self, topic: str, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return messages."""
        from pyspark.sql import functions

        within = Wanted(topic, partition, min(offsets), max(offsets) + 1)
        frame = (
            self._frame.where(_is_of(within))
            .where(functions.col("offset").isin(list(offsets)))
            .select("offset", "timestamp", "value", "key", "headers")
        )
        return {
            offset: Fetched(timestamp, _bytes(value), _bytes(key), _pairs(headers))
            for offset, timestamp, value, key, headers in self._collect(frame, "error rows")
        }

    def messages(self, wanted: Mapping[int, Wanted]) -> DataFrame:
        """Return messages as a frame."""
        from pyspark.sql import functions

        if not wanted:
            return self._session.createDataFrame([], MESSAGE_COLUMNS)
        is_wanted = functions.lit(False)
        for each in wanted.values():
            is_wanted |= _is_of(each)
        number: Column = functions.col("partition")
        if any(each.partition != partition for partition, each in wanted.items()):
            pairs = [
                functions.lit(each)
                for partition, (topic, own, _, _) in wanted.items()
                for each in (f"{topic} {own}", partition)
            ]
            number = functions.create_map(*pairs)[functions.concat_ws(" ", "topic", "partition")]
        return self._frame.where(is_wanted).select(
            "topic", number.alias("partition"), "offset", "timestamp", "key", "value", "headers"
        )

    def _collect(self, frame: DataFrame, what: str) -> list[tuple[Any, ...]]:
        self._session.sparkContext.setJobDescription(f"archive: {what}")
        with spark_errors():
            return [tuple(row) for row in frame.collect()]


def _read(session: SparkSession, path: str) -> DataFrame:
    """Return the columns of an archive as a frame of messages has them, with ``holes_before``."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions, types

    try:
        with _names_as_text(session):
            frame = session.read.parquet(path)
    except AnalysisException as error:
        raise StatementError(
            f'the archive "{path}" cannot be read: {str(error).splitlines()[0]}',
            hint="Name a folder with files of Parquet that this machine and all workers can read.",
        ) from error
    if missing := [name for name in _NEEDED if name not in frame.columns]:
        raise StatementError(
            f'the archive "{path}" has no column {", ".join(missing)}',
            hint="Name the folder that has the folders topic=NAME, as `rowtide archive` makes them.",
        )
    kind = frame.schema["timestamp"].dataType
    if isinstance(kind, types.TimestampType):
        timestamp = "unix_millis(timestamp)"
    elif isinstance(kind, types.LongType):
        timestamp = "timestamp"
    else:
        raise StatementError(
            f'the column timestamp of the archive "{path}" is {kind.simpleString()}',
            hint="It must be a timestamp in UTC, or a BIGINT of milliseconds since 1970.",
        )
    given = frame.columns
    return frame.select(
        "topic",
        functions.expr("CAST(partition AS INT)").alias("partition"),
        functions.expr("CAST(offset AS BIGINT)").alias("offset"),
        functions.expr(timestamp).alias("timestamp"),
        functions.expr("key" if "key" in given else "CAST(NULL AS BINARY)").alias("key"),
        "value",
        functions.expr("headers" if "headers" in given else f"CAST(NULL AS {_HEADERS})").alias("headers"),
        functions.expr("holes_before" if "holes_before" in given else "CAST(0 AS BIGINT)").alias(
            "holes_before"
        ),
    )


@contextmanager
def _names_as_text(session: SparkSession) -> Iterator[None]:
    """Let the values in names of folders be text: a topic may be called 007."""
    before = session.conf.get(_INFERENCE)
    session.conf.set(_INFERENCE, "false")
    try:
        yield
    finally:
        session.conf.set(_INFERENCE, before or "true")


def _is_of(wanted: Wanted) -> Column:
    from pyspark.sql import functions

    offset = functions.col("offset")
    return (
        (functions.col("topic") == wanted.topic)
        & (functions.col("partition") == wanted.partition)
        & (offset >= wanted.begin)
        & (offset < wanted.end)
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _pairs(headers: Sequence[Any] | None) -> list[tuple[str, bytes | None]] | None:
    return None if not headers else [(pair["key"], _bytes(pair["value"])) for pair in headers]
