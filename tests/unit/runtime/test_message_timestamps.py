"""A message whose timestamp is not a time is rejected and moves no bound: nothing after it is late for it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.codec.registry import decoder_for
from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.runtime.backfill.messages import MessageIntake
from rowtide.runtime.ingest.intake import ExplicitBound, deliver
from rowtide.runtime.pace import Pace
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Messages
from rowtide_connectors.memory import memory_broker
from support.pipeline import work_off

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number BIGINT) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW ordered AS SELECT STREAM number FROM readings ORDER BY ROWTIME WITHIN INTERVAL '1' SECOND;
CREATE FOREIGN TABLE log (at TIMESTAMP, number BIGINT) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO log SELECT STREAM ROWTIME, number FROM ordered;
"""
NO_TIMES = (-(2**63), -1, MAX_TIMESTAMP_MS + 1, 2**53, 2**62, 2**63 - 1)
TIMES = (0, 1, 1_700_000_000_000, MAX_TIMESTAMP_MS)


@given(st.lists(st.tuples(st.sampled_from(NO_TIMES + TIMES), st.sampled_from(["row", "rubbish", "bound"]))))
def test_every_message_is_a_row_a_bound_or_one_fault(given: list[tuple[int, str]]) -> None:
    (stream,) = plan_pipeline(SQL.format(file="none")).foreign_streams
    values = {"row": b'{"number": 1}', "rubbish": b"{", "bound": None}
    messages = Messages(
        "readings",
        0,
        np.arange(len(given), dtype=np.int64),
        np.array([time for time, _ in given], dtype=np.int64),
        [None] * len(given),
        [values[kind] for _, kind in given],
        len(given),
        [[("rowtide.bound", b"5")] if kind == "bound" else None for _, kind in given],
    )
    delivery = deliver(stream, decoder_for("JSON", stream.name, stream.row_type), 0, messages)
    rows = [row for part in delivery.parts if isinstance(part, Tray) for row in part.rows()]
    bounds = [part.offset for part in delivery.parts if isinstance(part, ExplicitBound)]
    expected: dict[str, list[int]] = {"row": [], "bound": [], "FUTURE": [], "DECODE": []}
    for offset, (time, kind) in enumerate(given):
        if kind == "bound":
            expected["bound"].append(offset)
        elif time in NO_TIMES:
            expected["FUTURE"].append(offset)
        else:
            expected["row" if kind == "row" else "DECODE"].append(offset)
    assert [row.counter for row in rows] == expected["row"]
    assert [row.rowtime for row in rows] == [given[at][0] for at in expected["row"]]
    assert bounds == expected["bound"]
    assert [(each.counter, each.reason) for each in delivery.faults] == sorted(
        (at, reason) for reason in ("FUTURE", "DECODE") for at in expected[reason]
    )


class World:
    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.db"
        self.broker = memory_broker(str(self.file))
        self.broker.ensure_topic("readings", 1)

    def send(self, number: int, time: int) -> None:
        self.broker.produce("readings", [b'{"number":%d}' % number], timestamps=[time])

    def run(self, pace: Pace) -> None:
        work_off(plan_pipeline(SQL.format(file=self.file)), "p", pace)

    def query(self, text: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            return connection.execute(text).fetchall()
        finally:
            connection.close()


@pytest.mark.parametrize("snapshots", [None, 1], ids=["replay", "snapshots"])
@pytest.mark.parametrize("wrong", NO_TIMES)
def test_rows_after_a_wrong_timestamp_are_not_late_live_nor_after_a_restart(
    tmp_path: Path, wrong: int, snapshots: int | None
) -> None:
    world, straight = World(tmp_path, "wrong"), World(tmp_path, "straight")
    pace = Pace(0, 3, snapshots, None)
    for number in range(20):
        at = 1_700_000_000_000 + 700 * number
        world.send(number, at)
        straight.send(number, at)
        if number in (4, 12):
            world.send(1_000 + number, wrong)
        if number == 9:
            world.run(pace)
    world.run(pace)
    straight.run(pace)
    assert world.query("select * from log order by number") == straight.query(
        "select * from log order by number"
    )
    errors = world.query("select kind, reason, rowtime, message_time, raw from rowtide_errors order by 1")
    assert [(kind, rowtime, time) for kind, _, rowtime, time, _ in errors] == [("REJECTED", None, wrong)] * 2
    assert all(
        str(reason).startswith(f"FUTURE: the message's timestamp, {wrong} ms") for _, reason, *_ in errors
    )
    assert sorted(json.loads(raw)["number"] for *_, raw in errors) == [1_004, 1_012]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", NO_TIMES)
def test_a_task_of_spark_rejects_the_same_messages(wrong: int) -> None:
    (stream,) = plan_pipeline(SQL.format(file="none")).foreign_streams
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["readings"] * 3,
            "partition": pa.array([0, 0, 0], pa.int32()),
            "offset": pa.array([0, 1, 2], pa.int64()),
            "timestamp": pa.array([1_000, wrong, 2_000], pa.int64()),
            "key": pa.array([None] * 3, pa.binary()),
            "value": pa.array([b'{"number": 1}'] * 3, pa.binary()),
            "headers": pa.array(
                [None] * 3, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
        }
    )
    given = [each for _, each in MessageIntake({"READINGS": stream})("READINGS", batch, {0: 0})]
    (fault,) = [each for each in given if isinstance(each, Fault)]
    (tray,) = [each for each in given if isinstance(each, Tray)]
    assert (fault.counter, fault.reason, fault.rowtime) == (1, "FUTURE", None)
    assert [row.rowtime for row in tray.rows()] == [1_000, 2_000]
