"""A backfill whose oldest messages come from an archive: rows, error rows and positions are those of the whole topics.

On a stand-in for Spark, with the broker in memory and SQLite. The archives are those that ``rowtide archive`` writes.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rowtide.errors import StatementError
from rowtide.runners.spark import frames
from rowtide.runtime.backfill.archived import ArchivedLog
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.crashpoints import CrashAt, SimulatedCrash, raise_crash
from rowtide.runtime.recovery.begin import StartTimestamp
from support.archive import StandInArchive, archive, files_of, source_of
from support.history import CUT_MS, TO_THE_END, TOPICS, Files
from support.seeds import seeds
from support.spark_stand_in import StandIn

SECONDS = 30
SLICED = BackfillOrder(CUT_MS, slices=SliceLimits(interval_ms=7_000, messages=23))


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


def history(files: Files, rng: random.Random, seconds: int = SECONDS) -> None:
    """Let messages of all kinds come for a while; nobody reads them."""
    for _ in range(seconds):
        files.clock.sleep(1)
        files.click(rng)
        if rng.random() < 0.4:
            text = f'"id":{rng.randrange(4)},"name":"u"'
            files.produce("users", rng.choice((0, 500)), text, rng.randrange(2))
            files.produce("clicks", rng.choice((0, 1_000, 20_000)), '"id":1,"n":-1', 2)
            files.produce("alarms", rng.choice((0, 30_000)), '"id":9')
        if rng.random() < 0.15:
            partition, value = rng.randrange(3), rng.choice([b"{", None])
            files.broker.produce("clicks", [value], partition=partition, timestamps=[files.clock.now_ms()])
        if rng.random() < 0.1:
            files.promise("clicks", rng.choice((2_000, 15_000)), rng.randrange(3))


def archived(files: Files, root: Path) -> None:
    """Archive all topics as they are."""
    root.mkdir(exist_ok=True)
    archive([source_of(files.broker, topic) for topic, _ in TOPICS.values()], root)


def places() -> list[tuple[str, int]]:
    return [(topic, each) for topic, partitions in TOPICS.values() for each in range(partitions)]


def truncate(files: Files, rng: random.Random, ends: dict[tuple[str, int], int]) -> None:
    """Let the broker delete messages of each partition, at most those before ``ends``."""
    for (topic, partition), end in ends.items():
        files.broker.truncate(topic, rng.randrange(end + 1), partition=partition)


def ends_of(files: Files) -> dict[tuple[str, int], int]:
    return {(topic, each): files.broker.topic(topic)[each].end for topic, each in places()}


@pytest.mark.parametrize("seed", seeds(15, few=1))
def test_any_splice_gives_the_rows_of_the_whole_topics(tmp_path: Path, seed: int) -> None:
    rng, root = random.Random(seed), tmp_path / "archive"
    idle = rng.choice(["", ", idle_timeout '4 SECOND'"])
    whole, files, killed = (Files(tmp_path / name, idle=idle) for name in ("whole", "spliced", "killed"))
    history(whole, rng, rng.randrange(5, SECONDS))
    archived(whole, root)
    ends = ends_of(whole)
    # What comes now is at the broker only.
    history(whole, rng, rng.randrange(SECONDS))
    for each in (files, killed):
        each.copy(whole)
        truncate(each, rng, ends)
    report = whole.backfill(3)
    order = rng.choice([TO_THE_END, SLICED])
    found = files.backfill(rng.choice([1, 3, 7]), order, archive=root)
    assert found.messages == report.messages
    assert found.errors == report.errors
    assert files.contents() == whole.contents()
    assert files.positions() == whole.positions()
    # Killed again and again while the broker goes on deleting and the archive grows.
    for _ in range(4):
        with pytest.raises(SimulatedCrash):
            killed.backfill(3, SLICED, CrashAt("commit.after_commit", 1, raise_crash), archive=root)
        if killed.positions() == whole.positions():
            break
        truncate(killed, rng, ends)
        if rng.random() < 0.3:
            archived(whole, root)
            ends = ends_of(whole)
    killed.backfill(3, SLICED, archive=root)
    assert killed.contents() == whole.contents()
    assert killed.positions() == whole.positions()
    # The service continues.
    history(whole, rng, 5)
    for each in (files, killed):
        each.copy(whole)
    for each in (whole, files, killed):
        each.live(10)
    assert files.contents() == killed.contents() == whole.contents()


@pytest.mark.parametrize("seed", seeds(12, few=2))
def test_a_beginning_and_a_cut_by_time_are_those_of_the_whole_topics(tmp_path: Path, seed: int) -> None:
    rng, root = random.Random(seed), tmp_path / "archive"
    whole, files = Files(tmp_path / "whole"), Files(tmp_path / "spliced")
    began = whole.clock.now_ms()
    history(whole, rng)
    archived(whole, root)
    ends = ends_of(whole)
    history(whole, rng, 10)
    files.copy(whole)
    truncate(files, rng, ends)
    now = whole.clock.now_ms()
    times = sorted(rng.randrange(began, now) for _ in range(2))
    order = BackfillOrder(times[1], StartTimestamp(times[0]), SliceLimits(messages=rng.choice([0, 11])))
    assert whole.backfill(3, order).positions == files.backfill(3, order, archive=root).positions
    assert files.contents() == whole.contents()
    assert files.positions() == whole.positions()


def one_partition(files: Files) -> None:
    """Produce to one partition of each topic."""
    for _ in range(40):
        files.clock.sleep(1)
        files.produce("users", 0, '"id":1,"name":"u"')
        files.produce("alarms", 0, '"id":9')
        files.produce("clicks", 0, '"id":1,"n":1')


@pytest.mark.parametrize("seed", range(4))
def test_a_gap_is_named_and_nothing_is_read(tmp_path: Path, seed: int) -> None:
    rng, root = random.Random(seed), tmp_path / "archive"
    files = Files(tmp_path / "files", idle="")
    one_partition(files)
    archived(files, root)
    one_partition(files)
    end, lost = 40, rng.randrange(1, 20)
    files.broker.truncate("clicks", end + lost)
    wanted = f'offsets {end} to {end + lost - 1} of topic "clicks" partition 0 are neither in the archive'
    with pytest.raises(StatementError, match=wanted):
        files.backfill(3, archive=root)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        files.rows("rowtide_positions")
    # What is lost before the beginning is not missed.
    begin = files.broker.topic("clicks")[0].timestamps[0]
    report = files.backfill(3, BackfillOrder(CUT_MS, StartTimestamp(begin)), archive=root)
    assert report.positions["CLICKS"][0] == 80
    assert report.messages >= 40 - lost


@pytest.mark.parametrize("seed", range(4))
def test_a_file_of_the_archive_that_is_missing_or_there_twice_is_found(tmp_path: Path, seed: int) -> None:
    rng, root = random.Random(seed), tmp_path / "archive"
    files = Files(tmp_path / "files", idle="")
    one_partition(files)
    archived(files, root)
    files.broker.truncate("clicks", 39)
    own = [path for path in files_of(root) if "topic=clicks" in str(path)]
    path = rng.choice(own[1:-1])
    offsets = pq.ParquetFile(path).read(["offset"]).column("offset").to_pylist()
    twice = path.with_name(path.name.replace("00000-0", "00000-9"))
    twice.write_bytes(path.read_bytes())
    with pytest.raises(StatementError, match="more than once") as caught:
        files.backfill(3, archive=root)
    assert f"from offset {offsets[0]} on" in str(caught.value)
    twice.unlink()
    path.unlink()
    wanted = f'offsets {offsets[0]} to {offsets[-1]} of topic "clicks" partition 0 are neither'
    with pytest.raises(StatementError, match=wanted):
        files.backfill(3, archive=root)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    files, other = Files(tmp_path / "files", idle=""), Files(tmp_path / "other", idle="")
    root.mkdir()
    with pytest.raises(StatementError, match="has no message of topics alarms, clicks, users"):
        files.backfill(3, archive=root)
    one_partition(other)
    archived(other, root)
    files.produce("clicks", 0, '"id":1,"n":1')
    with pytest.raises(StatementError, match='"users" partition 0 up to offset 39, but the topic ends at 0'):
        files.backfill(3, archive=root)


def test_a_partition_that_the_archive_lacks_is_missed_if_the_broker_has_deleted_of_it(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    files = Files(tmp_path / "files", idle="")
    one_partition(files)
    archived(files, root)
    files.produce("clicks", 0, '"id":1,"n":1', 1)
    files.produce("clicks", 0, '"id":1,"n":1', 1)
    files.broker.truncate("clicks", 1, partition=1)
    with pytest.raises(StatementError, match='offsets 0 to 0 of topic "clicks" partition 1 are neither'):
        files.backfill(3, archive=root)


def test_logs_of_any_holes_and_parts_say_what_is_missing(tmp_path: Path) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        rows: list[dict[str, Any]] = []
        offset = rng.randrange(3)
        first = offset
        for _ in range(40):
            holes = rng.choice([0, 0, 0, 1, 20])
            row = {"topic": "t", "partition": 0, "offset": offset + holes, "holes_before": holes}
            stamp = rng.randrange(50)
            if rng.random() > 0.05:
                rows.append({**row, "timestamp": stamp, "value": None, "key": None, "headers": None})
            offset += holes + 1
        if not rows:
            continue
        stand_in = StandInArchive(StandIn(1), tmp_path, rng.choice([1, 5, 100]))
        stand_in._rows = rows
        log = ArchivedLog(stand_in, stand_in.parts(["t"]))
        end = rows[-1]["offset"] + 1
        covered = {at for row in rows for at in range(row["offset"] - row["holes_before"], row["offset"] + 1)}
        for begin in range(first, end + 1):
            wanted = next(at for at in range(begin, end + 1) if at not in covered)
            again = next((at for at in range(wanted, end) if at in covered), None)
            assert log.first_missing(begin) == (wanted, again)
        for stamp in range(52):
            found = next((row["offset"] for row in rows if row["timestamp"] >= stamp), None)
            assert log.offset_at(stamp) == found


def test_messages_that_both_have_are_taken_once_in_many_slices(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    whole, files = Files(tmp_path / "whole", idle=""), Files(tmp_path / "files", idle="")
    history(whole, random.Random(7))
    archived(whole, root)
    files.copy(whole)
    wanted = whole.backfill(3)
    found = files.backfill(3, replace(SLICED, slices=SliceLimits(messages=5)), archive=root)
    assert (found.messages, found.errors) == (wanted.messages, wanted.errors)
    assert files.contents() == whole.contents()
