"""Partitions without messages in a backfill: they follow under an idle time-out, else they are named.

On a stand-in for Spark, with the broker in memory and SQLite. What follows follows as in a live service.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from rowtide.cli.run.backfill import _as_json, _shown
from rowtide.plan.outputs import table_nodes
from rowtide.runners.spark import frames
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.messages import MessageIntake
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory.source import MemorySource
from support.history import CUT_MS, ERRORS, LATER_S, STAMPED, TOPICS, Files
from support.spark_stand_in import StandIn


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


@pytest.mark.parametrize(
    ("parts", "slices"),
    [
        pytest.param(3, None, marks=pytest.mark.long),
        pytest.param(7, None, marks=pytest.mark.long),
        pytest.param(3, SliceLimits(interval_ms=9_000), marks=pytest.mark.long),
        (7, SliceLimits(messages=23)),
    ],
)
def test_what_follows_in_a_backfill_follows_as_in_a_live_service(
    tmp_path: Path, parts: int, slices: SliceLimits | None
) -> None:
    live, filled = Files(tmp_path / "live"), Files(tmp_path / "filled")
    rng = random.Random(parts)
    live.produce("users", 60_000, '"id":1,"name":"ann"')
    live.live(60, lambda: live.click(rng))
    filled.copy(live)
    report = filled.backfill(parts, BackfillOrder(CUT_MS, slices=slices or SliceLimits()))
    assert (report.slices > 4) == (slices is not None)
    assert len(live.rows("named")) > 40
    assert len(live.rows("everything")) > 40
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    named = {(each.relation, each.partition) for each in report.held_back}
    assert named <= {("CLICKS", 0), ("CLICKS", 1)}

    # Silent partitions wake, in time or late, the backfilled pipeline as the other one.
    def wakes() -> None:
        filled.click(rng)
        if rng.random() < 0.5:
            filled.produce("clicks", rng.choice((0, 1_000, 30_000)), '"id":1,"n":-1', 2)
            filled.produce("alarms", rng.choice((0, 30_000)), '"id":9')
            filled.produce("users", rng.choice((0, 30_000)), '"id":2,"name":"late"')

    before = len(filled.rows("named"))
    filled.live(30, wakes)
    assert len(filled.rows("named")) > before
    assert [row for row in filled.rows("rowtide_errors") if "ALARMS_TIMED" in row]
    assert "Equal" in filled.call("replay", "--compare")
    filled.call("state drop", "--snapshots", "--yes")
    assert "Equal" in filled.call("replay", "--compare")


def test_when_all_is_silent_long_since_streams_do_not_advance_each_other(tmp_path: Path) -> None:
    live, filled = Files(tmp_path / "live"), Files(tmp_path / "filled")
    live.click_on(random.Random(1), 60)
    live.clock.seconds += LATER_S
    filled.copy(live)
    live.live(20)
    with capture_logs() as logged:
        report = filled.backfill(3)
    segments = {each["segment"]: each["rows"] for each in logged if each["event"] == "backfill_segment"}
    assert {each.split(":")[0] for each in segments} == {f"segment {at + 1} of 9" for at in range(9)}
    (clicks,) = [rows for segment, rows in segments.items() if segment.endswith("Source CLICKS")]
    assert 60 < clicks <= 120
    assert live.rows("seconds")
    assert live.rows("named") == []
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    assert "It follows the others when" in _shown(report)


def test_without_a_time_out_what_holds_back_is_named_and_goes_on_live(tmp_path: Path) -> None:
    live, filled = Files(tmp_path / "live", idle=""), Files(tmp_path / "filled", idle="")
    live.click_on(random.Random(1), 60)
    filled.copy(live)
    live.live(20)
    report = filled.backfill(3)
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    assert filled.rows("seconds") == []
    (clicks,) = [each for each in report.held_back if each.relation == "CLICKS"]
    assert (clicks.topic, clicks.partition, clicks.bound, clicks.messages_left) == ("clicks", 2, None, False)
    # All clicks that are not late, and those that the t-sort has released.
    assert 60 <= clicks.rows <= 120
    shown = _shown(report)
    assert f'{clicks.rows} rows wait for partition 2 of topic "clicks" (CLICKS): it has no bound' in shown
    assert "declare idle_timeout on foreign stream CLICKS, such as idle_timeout '30 SECOND'" in shown
    assert {"relation", "partition", "rows"} <= set(_as_json(report)["held_back"][0])  # type: ignore[index]

    live.produce("clicks", 0, '"id":1,"n":-1', 2)
    live.produce("alarms", 0, '"id":9')
    live.produce("users", 0, '"id":2,"name":"bob"', 1)
    live.produce("users", 0, '"id":2,"name":"eve"', 0)
    filled.copy(live)
    for files in (live, filled):
        files.live(20)
    assert live.rows("everything")
    assert live.rows("named")
    assert live.rows("seconds")
    assert filled.contents() == live.contents()


def test_a_partition_with_messages_after_the_cut_is_not_silent(tmp_path: Path) -> None:
    files = Files(tmp_path / "filled")
    files.click_on(random.Random(1), 10)
    until = files.clock.now_ms() + 1
    files.clock.seconds += 60
    files.produce("clicks", 0, '"id":1,"n":-1', 2)
    files.clock.seconds += LATER_S
    report = files.backfill(3, BackfillOrder(until))
    (clicks,) = [each for each in report.held_back if each.relation == "CLICKS"]
    assert clicks.partition == 2
    assert "It has messages after the cut: `rowtide run` continues with them." in clicks.shown()


@pytest.mark.parametrize("parts", [3, 7])
def test_rows_that_wait_lie_in_files(tmp_path: Path, parts: int) -> None:
    files = Files(tmp_path / "filled", idle="")
    files.click_on(random.Random(1), 500)
    session = StandIn(parts)
    plan = plan_pipeline(files.text, file=str(files.sql))
    streams = {stream.name: stream for stream in plan.foreign_streams}
    run = SparkRun(
        session.as_session(),
        RunDefinition(table_nodes(plan), {name: range(count) for name, (_, count) in TOPICS.items()}),
        str(tmp_path),
        MessageIntake(streams),
    )
    run.read(
        {
            name: files.frame(
                session, topic, dict.fromkeys(range(count), 0), dict.fromkeys(range(count), 10_000)
            )
            for name, (topic, count) in TOPICS.items()
        }
    )
    held = [
        operator.held()
        for circuit in run._circuits.values()
        for operator in circuit.operators.values()
        if operator
    ]
    assert sum(held) < 20
    assert sum(rows for rows, _ in run.waiting.ahead().values()) > 700
    before = pa.total_allocated_bytes()
    state = run.state()
    tables = [table for step in state.values() for name, table in step.items() if name.startswith("queue")]
    assert sum(map(len, tables)) > 700
    assert pa.total_allocated_bytes() - before < 20_000
    # In memory it is the same.
    whole = run.flow()
    whole.check()
    for key, step in whole.snapshot().items():
        for name, table in step.items():
            assert table.equals(state[key][name].combine_chunks()), (key, name)


@pytest.mark.parametrize(("option", "comes"), [("", True), (", append_time 'OFF'", False)])
def test_where_the_broker_stamps_a_silent_partition_follows_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, comes: bool
) -> None:
    monkeypatch.setattr(MemorySource, "has_append_times", lambda _self: True)
    monkeypatch.setattr("support.history.SQL", STAMPED)
    live, filled = Files(tmp_path / "live", option), Files(tmp_path / "filled", option)
    live.click_on(random.Random(1), 60)
    # The latest message is no row, but shows the time.
    live.clock.sleep(1)
    live.broker.produce("clicks", [b"{"], partition=1, timestamps=[live.clock.now_ms()])
    filled.copy(live)
    live.live(20)
    report = filled.backfill(3)
    assert bool(live.rows("everything")) is comes
    assert len(live.rows("everything")) == (120 if comes else 0)
    for query in ("everything", ERRORS):
        assert sorted(map(repr, filled.rows(query))) == sorted(map(repr, live.rows(query)))
    assert filled.positions() == live.positions()
    decided = (
        "(select distinct kind, partition, next_offset, bound from rowtide_decisions where kind <> 'CUT')"
    )
    assert set(filled.rows(decided)) <= set(live.rows(decided))
    assert bool(filled.rows(decided)) is comes
    assert bool(report.held_back) is not comes
    assert "Equal" in filled.call("replay", "--compare")
    filled.call("state drop", "--snapshots", "--yes")
    assert "Equal" in filled.call("replay", "--compare")
