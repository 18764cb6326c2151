"""Live processing on Spark: batches with any cuts give the rows of the live service, whatever dies and takes over.

On a stand-in for Spark, with the broker in memory and SQLite.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest
from structlog.testing import capture_logs

from rowtide.errors import StatementError, SupersededError
from rowtide.operators.contract import RESUBMITTED
from rowtide.runners.spark import frames
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.batches import loop
from rowtide.runtime.batches.loop import BatchPace
from rowtide.runtime.crashpoints import CrashAt, SimulatedCrash, raise_crash
from rowtide.runtime.leadership.watch import USUAL, LeaderWatch
from rowtide.runtime.live.read_loop import TAKE_S
from rowtide.runtime.pace import SnapshotsDue
from rowtide.runtime.recovery.begin import StartEdge
from rowtide_connectors.memory.source import MemorySource
from support.deaths import COMMIT_POINTS, DEATHS_IN_COMMITS
from support.history import CUT_MS, ERRORS, STAMPED, Files
from support.seeds import seeds


@pytest.fixture(autouse=True)
def _rows_are_split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks process the few rows of most tests, split by key; and the driver those of the others."""
    if crc32(request.node.name.encode()) % 3:
        monkeypatch.setattr(frames, "FEW_ROWS", 0)


def happening(files: Files, rng: random.Random) -> Callable[[], None]:
    """Return what lets clicks, users and alarms come, some late, and bound records, some of which go back."""

    def happen() -> None:
        files.happen(rng)
        if rng.random() < 0.2:
            files.promise("clicks", rng.choice((2_000, 3_000, 15_000)), rng.randrange(3))

    return happen


def read_up(files: Files, parts: int = 3) -> None:
    """Let something come in every partition, so that rows need not wait, and read all on Spark."""
    files.clock.sleep(1)
    for topic, text in (("clicks", '"id":1,"n":-2'), ("users", '"id":5,"name":"u"'), ("alarms", '"id":9')):
        for partition in files.broker.topic(topic):
            files.produce(topic, 0, text, partition)
    files.broker.produce("clicks", [b"{"], partition=1, timestamps=[files.clock.now_ms()])
    files.batches(parts, 3)


def assert_all_live(files: Files, live: Files) -> None:
    """Compare with a service that reads the same messages at once; rows do not depend on when anything was read."""
    live.copy(files)
    live.live(10)
    assert live.rows("seconds")
    assert live.rows("named")
    assert {row[0] for row in live.rows(ERRORS)} == {"LATE", "REJECTED"}
    assert files.contents() == live.contents()
    assert files.positions() == live.positions()
    assert files.accounts() == live.accounts()
    assert "Equal" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal" in files.call("replay", "--compare")


@pytest.mark.parametrize(
    ("parts", "pace"),
    [
        (3, BatchPace(0.7)),
        (1, BatchPace(5.0, 1)),
        pytest.param(7, BatchPace(3.0), marks=pytest.mark.long),
        pytest.param(3, BatchPace(0.2, 7), marks=pytest.mark.long),
    ],
)
def test_batches_while_messages_come_are_a_live_service(tmp_path: Path, parts: int, pace: BatchPace) -> None:
    files, live = Files(tmp_path / "batches", idle=""), Files(tmp_path / "live", idle="")
    files.batches(parts, 25, happening(files, random.Random(parts)), pace)
    read_up(files, parts)
    assert_all_live(files, live)


@pytest.mark.parametrize("point", DEATHS_IN_COMMITS)
def test_a_driver_that_dies_at_any_step_of_a_commit_is_followed_by_another(
    tmp_path: Path, point: str
) -> None:
    files, live = Files(tmp_path / "batches", idle=""), Files(tmp_path / "live", idle="")
    happen = happening(files, random.Random(point))
    # The first commit has the start positions, the second is a batch.
    for count in (2, 4):
        with pytest.raises(SimulatedCrash):
            files.batches(3, 20, happen, crash_points=CrashAt(point, count, raise_crash))
    files.batches(7, 8, happen)
    read_up(files)
    assert_all_live(files, live)


@pytest.mark.parametrize("seed", seeds(4, few=1))
def test_services_backfills_and_batches_take_turns(tmp_path: Path, seed: int) -> None:
    """From any positions to any others: rows, errors and bounds are those of all live."""
    files, live = Files(tmp_path / "turns", idle=""), Files(tmp_path / "live", idle="")
    rng = random.Random(seed)
    happen = happening(files, rng)
    turns = ["live", "batches", "backfill", "batches", "live", "dies"]
    for turn, name in enumerate(turns if seed == 0 else rng.sample(turns, len(turns))):
        seconds = rng.randrange(4, 9)
        if name == "live":
            files.live(seconds, happen)
        elif name == "batches":
            files.batches(
                rng.choice((1, 3)),
                seconds,
                happen,
                BatchPace(0.5, rng.choice((None, 9))),
                snapshot_rows=rng.choice((None, 1, 20)),
            )
        elif name == "dies":
            with pytest.raises(SimulatedCrash):
                crash = CrashAt(rng.choice(COMMIT_POINTS), 3, raise_crash)
                files.batches(3, 30, happen, crash_points=crash)
        else:
            happen()
            slices = SliceLimits(messages=rng.choice((0, 9)))
            files.backfill(3, BackfillOrder(CUT_MS + turn, StartEdge.WATERMARK, slices))
    read_up(files)
    assert_all_live(files, live)


def test_a_driver_that_another_process_has_superseded_commits_nothing(tmp_path: Path) -> None:
    files, live = Files(tmp_path / "batches", idle=""), Files(tmp_path / "live", idle="")
    happen, seconds = happening(files, random.Random(1)), 0

    def taken_over() -> None:
        nonlocal seconds
        seconds += 1
        happen()
        if seconds == 6:
            # The driver has looked up nothing of this yet, and its state is older.
            files.live(2, happen)

    with pytest.raises(SupersededError):
        files.batches(3, 30, taken_over)
    assert seconds < 12
    read_up(files)
    assert_all_live(files, live)


def test_where_nothing_comes_in_most_batches_silent_partitions_follow_as_in_a_service(tmp_path: Path) -> None:
    files, live = Files(tmp_path / "batches"), Files(tmp_path / "live")
    for each in (files, live):
        each.produce("users", 60_000, '"id":1,"name":"ann"')
    one, other = random.Random(1), random.Random(1)
    files.batches(3, 40, lambda: files.click(one), BatchPace(TAKE_S))
    live.live(40, lambda: live.click(other))
    assert len(files.rows("everything")) > 40
    assert files.contents() == live.contents()
    assert files.positions() == live.positions()
    decided = "(select kind, relation, partition, next_offset, bound from rowtide_decisions)"
    assert sorted(files.rows(decided)) == sorted(live.rows(decided))


def test_silent_partitions_follow_within_a_batch(tmp_path: Path) -> None:
    """The decisions depend on the clock: they are logged, and every replay and service obeys them."""
    files = Files(tmp_path / "batches")
    rng = random.Random(1)
    files.produce("users", 60_000, '"id":1,"name":"ann"')
    # Nothing comes of partition 2 of the clicks, nor of the alarms.
    files.batches(3, 40, lambda: files.click(rng))
    assert len(files.rows("named")) > 40
    decided = "(select distinct relation, partition from rowtide_decisions where kind = 'IDLE')"
    assert {("CLICKS", 2), ("ALARMS", 0)} <= set(files.rows(decided))
    assert files.rows(f"(select * from {decided} where relation = 'CLICKS' and partition < 2)") == []
    assert "Equal" in files.call("replay", "--compare")
    # A silent partition wakes.
    files.produce("clicks", 0, '"id":1,"n":-1', 2)
    files.produce("clicks", 30_000, '"id":1,"n":-1', 2)
    files.live(12, lambda: files.click(rng))
    files.batches(3, 12, lambda: files.click(rng))
    assert any(row[0] == "LATE" and row[4] == 2 for row in files.rows(ERRORS))
    assert "Equal" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal" in files.call("replay", "--compare")
    files.batches(7, 8, lambda: files.click(rng))
    assert "Equal" in files.call("replay", "--compare")


@pytest.mark.parametrize(("option", "comes"), [("", True), (", append_time 'OFF'", False)])
def test_where_the_broker_stamps_a_silent_partition_follows_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, comes: bool
) -> None:
    monkeypatch.setattr(MemorySource, "has_append_times", lambda _self: True)
    monkeypatch.setattr("support.history.SQL", STAMPED)
    files = Files(tmp_path / "batches", option)
    rng = random.Random(1)
    files.batches(3, 20, lambda: files.click(rng))
    # The latest message cannot be decoded, but its timestamp shows the time.
    files.clock.sleep(1)
    files.broker.produce("clicks", [b"{"], partition=1, timestamps=[files.clock.now_ms()])
    files.batches(3, 3)
    assert len(files.rows("everything")) == (files.clicks if comes else 0)
    assert "Equal" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal" in files.call("replay", "--compare")


WITH_ROWS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE TABLE names (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));
INSERT INTO names VALUES (1, 'ann'), (2, 'bob');
CREATE FOREIGN STREAM clicks (at TIMESTAMP, id INTEGER, n INTEGER)
  SERVER k OPTIONS (topic 'clicks', format 'JSON'{idle});
CREATE FOREIGN TABLE everything (id INTEGER, n INTEGER, name VARCHAR(20)) SERVER d;
CREATE PUMP q STARTED AS INSERT INTO everything
  SELECT STREAM c.id, c.n, m.name FROM clicks AS c JOIN names AS m ON c.id = m.id;
"""


def test_rows_of_the_pipelines_own_tables_are_there_before_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.history.SQL", WITH_ROWS)
    files, live = Files(tmp_path / "batches", idle=""), Files(tmp_path / "live", idle="")
    rng = random.Random(1)
    files.batches(3, 12, lambda: files.click(rng))
    files.produce("clicks", 0, '"id":2,"n":-1', 2)
    files.batches(3, 4)
    live.copy(files)
    live.live(6)
    assert len(live.rows("everything")) > 5
    for query in ("everything", ERRORS):
        assert sorted(map(repr, files.rows(query))) == sorted(map(repr, live.rows(query)))
    assert files.positions() == live.positions()


@pytest.mark.parametrize("then_live", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_partition_that_comes_joins_behind_the_bound_of_its_stream(tmp_path: Path, then_live: bool) -> None:
    files = Files(tmp_path / "batches", idle="")
    rng = random.Random(1)
    seconds = 0

    def comes() -> None:
        nonlocal seconds
        seconds += 1
        files.click(rng)
        files.produce("clicks", 0, '"id":1,"n":-1', 2)
        if seconds == 8:
            files.broker.add_partitions("clicks", 4)
        if seconds >= 8:
            files.produce("clicks", 20_000 if seconds == 8 else 0, '"id":2,"n":-2', 3)

    with capture_logs() as logged:
        files.batches(3, 20, comes)
    assert [each["partition"] for each in logged if each["event"] == "partition_joins"] == [3]
    assert [row[3:6] for row in files.rows(ERRORS) if row[4] == 3] == [("clicks", 3, 0)]
    if then_live:
        files.live(10, comes)
    files.batches(7, 6, comes)
    assert "Equal" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal" in files.call("replay", "--compare")
    files.live(5, comes)
    assert "Equal" in files.call("replay", "--compare")


@pytest.mark.parametrize(("snapshot_rows", "least", "most"), [(None, 1, 1), (1, 10, 30), (40, 2, 4)])
def test_snapshots_are_as_rare_as_the_settings_say_and_the_last_commit_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot_rows: int | None, least: int, most: int
) -> None:
    stored: list[bool] = []
    committed = SnapshotsDue.committed

    def noted(self: SnapshotsDue, now: float, messages: int, *, with_snapshot: bool) -> None:
        stored.append(with_snapshot)
        committed(self, now, messages, with_snapshot=with_snapshot)

    monkeypatch.setattr(SnapshotsDue, "committed", noted)
    files = Files(tmp_path / "batches", idle="")
    files.batches(3, 20, happening(files, random.Random(1)), snapshot_rows=snapshot_rows)
    assert least <= sum(stored) <= most
    with capture_logs() as logged:
        files.live(1)
    assert [each["replayed_messages"] for each in logged if each["event"] == "recovered"] == [0]


def test_a_run_to_the_end_stops_there(tmp_path: Path) -> None:
    files, live = Files(tmp_path / "batches", idle=""), Files(tmp_path / "live", idle="")
    happen = happening(files, random.Random(1))
    for _ in range(30):
        files.clock.sleep(1)
        happen()
    before = files.clock.seconds
    files.batches(3, 1_000, pace=BatchPace(60.0, 11), until_end=True)
    # Batches that are full are followed by the next one at once.
    assert files.clock.seconds == before
    assert_all_live(files, live)


PENDING_LATE = "(select error_id from rowtide_errors where kind = 'LATE' and resubmitted is null)"
MARKED = "(select error_id from rowtide_errors where resubmitted is not null)"


@pytest.mark.parametrize("way", ["running", "ended", "killed"])
def test_rows_are_not_resubmitted_while_spark_has_the_pipeline_or_had_it_last(
    tmp_path: Path, way: str
) -> None:
    files = Files(tmp_path / "batches", idle="")
    happen = happening(files, random.Random(1))
    files.live(12, happen)
    number = str(files.rows(PENDING_LATE)[0][0])
    said: list[str] = []

    def resubmits() -> None:
        for arguments in ([number], ["--all"], ["--all", "--dry-run"]):
            said.append(files.call("errors resubmit", *arguments, code=2))

    if way == "killed":
        with pytest.raises(SimulatedCrash):
            files.batches(3, 12, happen, crash_points=CrashAt(COMMIT_POINTS[0], 1, raise_crash))
    else:
        files.batches(3, 12, resubmits if way == "running" else happen)
    resubmits()
    assert files.rows(MARKED) == []
    assert all("reads no resubmitted rows" in each and ", on Spark" in each for each in said)
    assert all("rowtide run PIPELINE.sql" in " ".join(each.split()) for each in said)
    # What the hint says helps, and the row is read.
    files.live(4)
    files.call("errors resubmit", number)
    files.live(10)
    assert [row for row in files.positions() if cast("int", row[1]) >= RESUBMITTED]


@pytest.mark.parametrize("is_read", [False, True])
def test_spark_does_not_start_on_resubmitted_rows_and_one_process_reads_them(
    tmp_path: Path, is_read: bool
) -> None:
    files = Files(tmp_path / "batches", idle="")
    happen = happening(files, random.Random(1))
    files.live(12, happen)
    files.call("errors resubmit", str(files.rows(PENDING_LATE)[0][0]))
    if is_read:
        files.live(10)
    before = files.positions(), files.pulse()
    with pytest.raises(StatementError, match="has resubmitted error rows"):
        files.batches(3, 4, happen)
    assert (files.positions(), files.pulse()) == before
    files.live(10)
    assert [row for row in files.positions() if cast("int", row[1]) >= RESUBMITTED]
    assert "Equal" in files.call("replay", "--compare")


def test_rows_that_are_resubmitted_while_spark_starts_stop_it(tmp_path: Path) -> None:
    files = Files(tmp_path / "batches", idle="")
    files.live(12, happening(files, random.Random(1)))
    number = str(files.rows(PENDING_LATE)[0][0])

    class Meanwhile:
        """Resubmits before the epoch is taken, and after that."""

        def reach(self, point: str) -> None:
            if point == "start.before_epoch":
                files.call("errors resubmit", number)
            elif point == "start.after_epoch":
                files.call("errors resubmit", "--all", code=2)

    with pytest.raises(StatementError, match="has resubmitted error rows"):
        files.batches(3, 4, crash_points=Meanwhile())
    assert [str(row[0]) for row in files.rows(MARKED)] == [number]
    files.live(10)
    assert [row for row in files.positions() if cast("int", row[1]) >= RESUBMITTED]


PRICED = """
CREATE TABLE prices (id INTEGER NOT NULL PRIMARY KEY, price INTEGER);
CREATE FOREIGN TABLE priced (id INTEGER, price INTEGER) SERVER d;
CREATE PUMP s STARTED AS INSERT INTO priced (id, price)
  SELECT STREAM c.id, p.price FROM clicks_timed c LEFT JOIN prices p ON c.id = p.id;
"""


def test_statements_wait_for_one_process_and_are_then_refused(tmp_path: Path) -> None:
    files = Files(tmp_path / "batches", idle="")
    files.text += PRICED
    files.sql.write_text(files.text)
    happen = happening(files, random.Random(1))
    files.batches(3, 6, happen)
    files.call("execute --no-wait", "INSERT INTO prices VALUES (1, 7)")
    with capture_logs() as logged:
        files.batches(3, 12, happen)
    assert [each["log_level"] for each in logged if each["event"] == "statements_wait"] == ["warning"]
    assert files.rows("(select 1 from priced where price is not null)") == []
    files.live(12, happen)
    assert files.rows("(select 1 from priced where price is not null)")
    before = files.positions()
    with pytest.raises(StatementError, match="statements have changed tables"):
        files.batches(3, 4, happen)
    assert files.positions() == before


def test_a_replica_of_one_process_sees_that_a_quiet_driver_lives_and_takes_over_when_it_stops(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path / "batches", idle="")
    watch, seen = LeaderWatch(USUAL), 0

    def look() -> None:
        nonlocal seen
        watch.see(files.pulse(), files.clock.seconds)
        assert not watch.is_leaderless()
        seen += 1

    files.batches(3, 3, lambda: files.click(random.Random(1)))
    before = files.pulse()
    files.batches(3, 60, look, BatchPace(20.0))
    after = files.pulse()
    assert seen > 50
    # One commit of its start, and one for the snapshot of its end at most.
    assert after.commits <= before.commits + 2
    assert after.has_resigned
    # A process whose leader shows nothing is one to take over from.
    files.live(2)
    watch = LeaderWatch(USUAL)
    watch.begin(files.clock.seconds)
    for _ in range(20):
        watch.see(files.pulse(), files.clock.seconds)
        files.clock.sleep(0.5)
    assert watch.is_leaderless()


def test_a_driver_that_processes_few_rows_itself_shows_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path / "batches", idle="")
    seen = files.work_long(monkeypatch)
    files.batches(3, 60, lambda: files.click(random.Random(1)))
    assert len(seen) == 12
    assert len({each.commits for each in seen}) == 1, "it was one batch"


def test_messages_that_have_aged_out_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path / "batches", idle="")
    happen = happening(files, random.Random(1))
    files.batches(3, 6, happen)
    seconds = 0

    def ages() -> None:
        nonlocal seconds
        seconds += 1
        happen()
        if seconds == 4:
            log = files.broker.topic("clicks")[0]
            files.broker.truncate("clicks", log.end, partition=0)

    monkeypatch.setattr(loop, "TAKE_S", 1.5)
    with pytest.raises(StatementError, match="no longer holds offsets"):
        files.batches(3, 12, ages, BatchPace(3.0))
