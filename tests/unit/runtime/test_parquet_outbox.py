"""Rows that pumps write to files of Parquet: each is in one file once, wherever processes die and whatever fails."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rowtide.codec.encode.rows import RecordEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import Field, RowType
from rowtide.runtime.crashpoints import (
    OUTBOX_POINTS,
)
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.topic_sinks import SinkOfStream, record_columns
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.api import MessageSink, OutgoingMessage, TableColumn
from rowtide_connectors.errors import OptionError, RefusedMessageError
from rowtide_connectors.file_sinks import RecordSinkConnector
from rowtide_connectors.files.records import NULL_FOLDER
from rowtide_connectors.registry import find_message_sink
from support.files import dies_at_a_point, fails_anywhere, parquet_rows_of, taken_over_within
from support.outbox import alerts_plan
from support.pipeline import PipelineFiles
from support.runtime import World, fill
from support.seeds import seeds

PACE = Pace(100, 60, 100, None)
TEXTS = (TableColumn("K", "VARCHAR(10)"), TableColumn("N", "BIGINT", nullable=False))


def open_sink(
    folder: Path, columns: Sequence[TableColumn] = TEXTS, sender: str = "p-ALERTS", **options: str
) -> MessageSink:
    connector = find_message_sink("files")
    assert isinstance(connector, RecordSinkConnector)
    given = {"path": "out", "folders": "HOUR", **options}
    connector.check_columns(given, columns)
    return connector.open_records({"url": str(folder)}, given, sender, columns)


def records(*rows: tuple[int, Sequence[object], int]) -> list[OutgoingMessage]:
    return [OutgoingMessage(number, RecordEncoder().encode(row), stamp) for number, row, stamp in rows]


class Writer:
    """A world whose pipeline writes rows to files of Parquet, in folders by sensor."""

    def __init__(self, folder: Path, seed: int, **options: str) -> None:
        self.folder = folder
        self.options = {"partition_by": "sensor", "file_rows": "17", **options}
        folder.mkdir()
        plan = alerts_plan(format="PARQUET")
        (alerts,) = plan.written_streams
        plain = tuple(each for each in alerts.options if each[0] != "key")
        self.plan = replace(plan, written_streams=(replace(alerts, options=plain),))
        topic = InMemoryTopic("readings", 3, random.Random(seed))
        fill(topic, random.Random(1))
        self.world = World(topic, plan=self.plan)

    def run(self, **changes: Any) -> None:
        (stream,) = self.plan.written_streams
        columns = record_columns(stream)
        guarantee = find_message_sink("files").guarantee
        sinks = {
            stream.name: SinkOfStream(
                stream, guarantee, lambda sender: open_sink(self.folder, columns, sender, **self.options)
            )
        }
        Service(self.world.context(pace=PACE, sinks=sinks, **changes)).run(until_end=True)

    def check(self) -> None:
        log = self.world.database.contents.appended["LOG"]
        found: dict[str, list[object]] = {}
        for folder, rows in parquet_rows_of(self.folder / "out").items():
            found.setdefault(folder.partition("/")[0], []).extend(row["amount"] for row in rows)
        wanted: dict[str, list[object]] = {}
        for sensor, amount in log:
            name = NULL_FOLDER if sensor is None else sensor
            wanted.setdefault(f"sensor={name}", []).append(amount)
        assert found == wanted
        assert len(log) > 200


@pytest.mark.parametrize("point", OUTBOX_POINTS)
def test_dying_at_a_point_again_and_again_writes_each_row_once(tmp_path: Path, point: str) -> None:
    dies_at_a_point(Writer, tmp_path, point)


@pytest.mark.parametrize("dies", [False, True], ids=["calls fail", "the process dies"])
@pytest.mark.parametrize("seed", seeds(3, few=1))
def test_any_failure_of_any_step_writes_each_row_once(tmp_path: Path, seed: int, dies: bool) -> None:
    fails_anywhere(Writer, tmp_path, seed, 0.04, dies=dies)


def test_an_older_sink_that_was_slow_writes_nothing_that_a_newer_one_has_written(tmp_path: Path) -> None:
    older, newer = open_sink(tmp_path, partition_by="k"), open_sink(tmp_path, partition_by="k")
    rows = records((1, ["a", 1], 1), (2, ["b", 2], 1), (3, ["a", 3], 1))
    older.begin()
    with taken_over_within(newer, rows[:2], 2):
        older.send(rows, 3)
    newer.send(rows[2:], 3)
    found = parquet_rows_of(tmp_path / "out")
    assert {folder: [row["n"] for row in each] for folder, each in found.items()} == {
        "k=a/date=1970-01-01/hour=00": [1, 3],
        "k=b/date=1970-01-01/hour=00": [2],
    }
    assert older.begin() == 3


def test_values_of_all_types_are_those_of_the_rows(tmp_path: Path) -> None:
    values: dict[str, tuple[object, object]] = {
        "BOOLEAN": (True, True),
        "SMALLINT": (-7, -7),
        "BIGINT": (1 << 62, 1 << 62),
        "REAL": (0.5, 0.5),
        "DOUBLE": (float("inf"), float("inf")),
        "DECIMAL(10, 2)": (Decimal("-1.50"), Decimal("-1.50")),
        "DECIMAL(38, 0)": (Decimal(10**37), Decimal(10**37)),
        "VARCHAR(9)": ("é", "é"),
        "UUID": ("x" * 36, "x" * 36),
        "JSON": ('{"a": 1}', '{"a": 1}'),
        "VARBINARY(4)": (b"\x00\xff", b"\x00\xff"),
        "DATE": (-1, date(1969, 12, 31)),
        "TIME": (1_500, time(0, 0, 1, 500_000)),
        "TIMESTAMP": (1_500, datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        "TIMESTAMP WITH TIME ZONE": (1_500, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        "INTERVAL DAY TO SECOND": (86_400_000, 86_400_000),
        "INTEGER ARRAY": ((1, None), [1, None]),
        "TIMESTAMP WITH TIME ZONE ARRAY": ((0, None), [datetime(1970, 1, 1, tzinfo=UTC), None]),
        "DATE ARRAY": ((0,), [date(1970, 1, 1)]),
        "DECIMAL(5, 1) ARRAY": ((Decimal("1.5"),), [Decimal("1.5")]),
    }
    columns = [TableColumn(f"C{at}", kind) for at, kind in enumerate(values)]
    one = open_sink(tmp_path, columns, folders="NONE")
    one.begin()
    nulls = [None] * len(columns)
    one.send(records((1, [given for given, _ in values.values()], 1), (2, nulls, 1)), 2)
    (path,) = (tmp_path / "out").glob("*.parquet")
    rows = pq.ParquetFile(path).read().to_pylist()
    assert [list(row.values()) for row in rows] == [[wanted for _, wanted in values.values()], nulls]
    assert list(rows[0]) == [f"c{at}" for at in range(len(columns))]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("row", [("a",), ("a", 1, 2), (1, "a"), ("a", "b")])
def test_rows_of_other_columns_are_refused_and_nothing_is_written(
    tmp_path: Path, row: Sequence[object]
) -> None:
    one = open_sink(tmp_path)
    one.begin()
    with pytest.raises(RefusedMessageError, match="message 1 does not fit the columns") as caught:
        one.send(records((1, row, 1)), 1)
    assert caught.value.number == 1
    assert parquet_rows_of(tmp_path / "out") == {}


def test_names_of_folders_are_those_of_hive(tmp_path: Path) -> None:
    columns = (TableColumn("Mixed", "VARCHAR"), TableColumn("D", "DATE"), TableColumn("N", "BIGINT"))
    one = open_sink(tmp_path, columns, partition_by="d, mixed", folders="DAY", compression="snappy")
    one.begin()
    rows: list[tuple[object, ...]] = [("a/b=ü", 0, 1), (None, None, 2), ("..", 1, 3)]
    one.send(records(*((at, row, 86_400_000) for at, row in enumerate(rows, 1))), 3)
    found = parquet_rows_of(tmp_path / "out")
    assert {folder: [row["n"] for row in each] for folder, each in found.items()} == {
        "d=1970-01-01/Mixed=a%2Fb%3D%C3%BC/date=1970-01-02": [1],
        "d=__HIVE_DEFAULT_PARTITION__/Mixed=__HIVE_DEFAULT_PARTITION__/date=1970-01-02": [2],
        "d=1970-01-02/Mixed=../date=1970-01-02": [3],
    }
    table = ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=False).to_table()
    assert sorted(pa.Table.to_pylist(table.select(["n"])), key=lambda row: row["n"]) == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]
    flags = (TableColumn("a/b", "BOOLEAN"), TableColumn("N", "BIGINT"))
    two = open_sink(tmp_path, flags, "q", path="flags", partition_by="a/b", folders="NONE")
    two.begin()
    two.send(records((1, (True, 1), 1)), 1)
    assert list(parquet_rows_of(tmp_path / "flags")) == ["a%2Fb=true"]
    with pytest.raises(RefusedMessageError, match="message 4 cannot be written") as caught:
        one.send(records((4, ["x" * 300, 1, 1], 1)), 4)
    assert caught.value.number == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_by": "x"}, "partition_by"),
        ({"partition_by": "k, K"}, "partition_by"),
        ({"partition_by": "k, n"}, "partition_by"),
        ({"compression": "LZ4"}, "compression"),
        ({"file_rows": "0"}, "file_rows"),
        ({"file_age_s": "-1"}, "file_age_s"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_sink(tmp_path, TEXTS, **options)


SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE SERVER f FOREIGN DATA WRAPPER {wrapper};
CREATE FOREIGN STREAM readings (n INTEGER, city VARCHAR(20)) SERVER k OPTIONS (topic 'readings');
CREATE FOREIGN STREAM kept (n INTEGER, city VARCHAR(20)) SERVER f OPTIONS ({options});
CREATE FOREIGN TABLE t (n INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO kept SELECT STREAM n, city FROM readings;
CREATE PUMP q STARTED AS INSERT INTO t SELECT STREAM n FROM readings;
"""


@pytest.mark.parametrize(
    ("wrapper", "options", "message"),
    [
        ("MEMORY", "topic 'kept', format 'PARQUET'", "its connector stores messages, not columns"),
        ("FILES OPTIONS (url '/')", "path 'x', format 'PARQUET', key 'n'", "format PARQUET does not take it"),
        ("FILES OPTIONS (url '/')", "path 'x', partition_by 'n'", "partition_by"),
        ("FILES OPTIONS (url '/')", "path 'x', compression 'ZSTD'", "compression"),
        ("FILES OPTIONS (url '/')", "path 'x', format 'PARQUET', partition_by 'm'", "partition_by"),
    ],
)
def test_check_refuses_what_cannot_be_written(
    tmp_path: Path, wrapper: str, options: str, message: str
) -> None:
    files = PipelineFiles(tmp_path, SQL.format(wrapper=wrapper, options=options), "", name="p")
    with pytest.raises(AssertionError, match=message):
        files.call("check")


def test_rows_wait_for_each_other_and_a_stop_writes_them(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "w", 1, partition_by="sensor", file_rows="100000", folders="NONE")
    writer.run()
    writer.check()
    # One file for each sensor, although the run has made many commits.
    assert {len(list(folder.iterdir())) for folder in (tmp_path / "w" / "out").glob("sensor=*")} == {1}


def test_a_plan_says_the_columns_of_records() -> None:
    assert record_columns(ForeignStream("S", RowType(()), "K", (("format", "JSON"),))) == ()
    plan = plan_pipeline(SQL.format(wrapper="FILES", options="format 'PARQUET'"))
    (stream,) = plan.written_streams
    assert record_columns(stream) == (TableColumn("N", "INTEGER"), TableColumn("CITY", "VARCHAR(20)"))
    assert isinstance(stream.row_type[0], Field)
    assert msgspec.msgpack.decode(RecordEncoder().encode((1, Decimal("1.50"), None))) == [1, "1.50", None]
    with pytest.raises(StatementError, match="PARQUET is not a format of messages"):
        decoder_of(ForeignStream("S", stream.row_type, "K", (("format", "PARQUET"),)))
