"""A backfill whose tasks keep state in parts: as all live, killed anywhere, in any number of parts, from any store.

On a stand-in for Spark, with the broker in memory and SQLite.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rowtide.checkpoint.parts import gathered
from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.in_database import PartsOfServer
from rowtide.checkpoint.parts.store import PartStore
from rowtide.errors import ReplacedSnapshotError, StatementError
from rowtide.flow.flow import bounds_of
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark import frames
from rowtide.runners.spark.parts.queues import QueueTasks
from rowtide.runners.spark.shuffle.exchange import Exchange, TaskFunction
from rowtide.runners.spark.shuffle.held import StageGiven
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.commit import collecting
from rowtide.runtime.crashpoints import CrashAt, SimulatedCrash, raise_crash
from rowtide.runtime.leadership.heart import Heart
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.recovery.begin import StartEdge
from support.deaths import DEATHS_IN_COMMITS
from support.history import CUT_MS, IDLE, Files, planned

SLICES = SliceLimits(interval_ms=11_000)


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


@pytest.fixture(params=["files", "database"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def store_of(files: Files, kind: str = "files") -> PartStore:
    if kind == "files":
        return FileParts(str(files.database.parent / "parts"))
    return PartsOfServer("RDBMS", {"url": f"sqlite:///{files.database}"})


SLICED = BackfillOrder(CUT_MS, slices=SLICES)


def files_in_parts(folder: Path, kind: str = "files", idle: str = "") -> Files:
    """Return a pipeline whose backfills keep state in parts."""
    found = Files(folder, idle=idle)
    found.parts = store_of(found, kind)
    return found


def history(files: Files, seed: int = 1, seconds: int = 40) -> None:
    rng = random.Random(seed)
    for _ in range(seconds):
        files.clock.sleep(1)
        files.happen(rng)


def named(files: Files) -> set[str]:
    """Return the blobs that the snapshots in the database name."""
    manifests = [
        json.loads(str(manifest)) for (manifest,) in files.rows("(select manifest from rowtide_snapshots)")
    ]
    return {blob for manifest in manifests for blob in manifest.get("blobs", [])}


def stored(files: Files, kind: str = "files") -> set[str]:
    """Return the blobs that are there."""
    if kind == "database":
        names = {str(name) for (name,) in files.rows("(select name from rowtide_state_parts)")}
        return {name for name in names if "/" in name}
    return in_folder(files.database.parent / "parts")


def in_folder(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def check_equal(files: Files, other: Files) -> None:
    assert files.contents() == other.contents()
    assert files.positions() == other.positions()
    assert files.accounts() == other.accounts()


def test_slices_with_state_in_parts_are_all_live(tmp_path: Path, kind: str) -> None:
    live, files = Files(tmp_path / "live", idle=""), files_in_parts(tmp_path / "parts", kind)
    history(live)
    files.copy(live)
    live.live(8)
    assert files.backfill(3, SLICED).slices > 3
    check_equal(files, live)
    # Nothing is left but what the snapshots name, of the last slices.
    assert named(files)
    assert stored(files, kind) == named(files)
    assert "Equal" in files.call("replay", "--compare")

    # A service takes it over, and Spark from the service.
    history(live, 2, 9)
    files.copy(live)
    for each in (live, files):
        each.live(6)
    check_equal(files, live)
    history(live, 3, 9)
    files.copy(live)
    live.live(6)
    files.backfill(7, replace(SLICED, until_ms=CUT_MS + 1, begin=StartEdge.WATERMARK))
    check_equal(files, live)
    assert named(files)

    # A process whose snapshots have all state removes what they have replaced.
    for seed in (4, 5):
        history(live, seed, 5)
        files.copy(live)
        live.live(6)
        files.batches(3, 6, snapshot_rows=1)
        assert stored(files, kind) == named(files)
    check_equal(files, live)
    assert not named(files)
    assert "Equal" in files.call("replay", "--compare")


def test_a_service_goes_on_with_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    live, files = Files(tmp_path / "live", idle=""), Files(tmp_path / "parts", idle="")
    files.parts = FileParts("what://bucket/folder")
    history(live, seconds=9)
    files.copy(live)
    live.live(6)
    files.batches(3, 6, snapshot_rows=1)
    assert files.rows("(select 1 from rowtide_snapshots)")
    check_equal(files, live)


@pytest.mark.parametrize("point", DEATHS_IN_COMMITS)
def test_one_that_is_killed_continues_in_another_number_of_parts(tmp_path: Path, point: str) -> None:
    whole, files = Files(tmp_path / "whole", idle=""), files_in_parts(tmp_path / "killed")
    history(whole)
    files.copy(whole)
    whole.backfill(3)
    for parts, count in ((3, 2), (1, 1)):
        with pytest.raises(SimulatedCrash):
            files.backfill(parts, SLICED, CrashAt(point, count, raise_crash))
        assert named(files) <= stored(files)
    assert files.backfill(7, SLICED).slices > 0
    check_equal(files, whole)
    assert stored(files) == named(files)


def test_silent_partitions_follow_as_in_a_backfill_without_parts(tmp_path: Path) -> None:
    whole, files = Files(tmp_path / "whole"), files_in_parts(tmp_path / "parts", idle=IDLE)
    history(whole)
    files.copy(whole)
    for each in (whole, files):
        each.backfill(3, SLICED)
    check_equal(files, whole)


def test_bounds_stay_in_a_slice_whose_messages_are_all_rejected(tmp_path: Path) -> None:
    live, whole = (Files(tmp_path / name, idle="") for name in ("live", "whole"))
    files = files_in_parts(tmp_path / "parts")
    history(live, seconds=20)
    for partition in range(3):
        live.produce("clicks", 0, '"id":1,"n":7', partition)
    # One of them has an explicit bound, too.
    live.promise("clicks", 1_000, 1)
    live.clock.sleep(22)
    for partition in range(3):
        live.broker.produce("clicks", [b"{"], partition=partition, timestamps=[live.clock.now_ms()])
    live.live(8)
    for each in (whole, files):
        each.copy(live)
        assert each.backfill(3, SLICED).slices > 2
        check_equal(each, live)
    assert bounds(files) == bounds(whole)
    # Later rows are late, or not, as they are live.
    history(live, 2, 9)
    files.copy(live)
    for each in (live, files):
        each.live(6)
    check_equal(files, live)


def bounds(files: Files) -> dict[str, Bound]:
    """Return the last bound of each step in the newest snapshot."""
    with open_pipeline(planned(files.text, str(files.sql)), "idle") as pipeline:
        snapshot = pipeline.ledger.newest_snapshot()
    assert snapshot is not None
    return bounds_of(snapshot.state, "given")


def reported(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the reports of tasks, from now on."""
    sizes: list[int] = []
    report = StageGiven.report

    def measured(given: StageGiven, run: int) -> bytes:
        content = report(given, run)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(StageGiven, "report", measured)
    return sizes


def test_rows_that_wait_at_all_merges_are_brought_back_by_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []
    run_cells = Exchange.run_cells

    def noted(exchange: Exchange, cells: Sequence[bytes], work: TaskFunction, turn: int) -> StageGiven:
        if isinstance(work, QueueTasks):
            ports.append(len(work.queues))
        return run_cells(exchange, cells, work, turn)

    monkeypatch.setattr(Exchange, "run_cells", noted)
    files = files_in_parts(tmp_path / "files")
    history(files)
    slices = files.backfill(3, SLICED).slices
    assert len(ports) <= slices - 1
    assert max(ports) > 1


def many_users(files: Files, count: int) -> None:
    """Let users get their names, and a few of them click afterwards."""
    for number in range(count):
        files.clock.sleep(0.01)
        files.produce("users", 0, f'"id":{number},"name":"user {number}"', number % 2)
    for number in range(20):
        files.clock.sleep(1)
        files.produce("users", 0, f'"id":{number},"name":"again"', number % 2)
        for partition in range(3):
            files.produce("clicks", 0, f'"id":{number},"n":{number}', partition)


def many_that_wait(files: Files, count: int) -> None:
    """Let clicks wait in t-sorts, and in a merge for a partition that is silent."""
    for number in range(count):
        files.clock.sleep(0.01)
        files.produce("clicks", 0, f'"id":{number % 7},"n":{number}', number % 2)
    for number in range(20):
        files.clock.sleep(1)
        files.produce("users", 0, f'"id":{number},"name":"user"', number % 2)
    for number in range(count):
        files.produce("clicks", 0, f'"id":{number % 7},"n":{number}', number % 2)


@pytest.mark.parametrize("happens", [many_users, many_that_wait])
def test_the_state_of_many_rows_does_not_pass_through_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Files, int], None]
) -> None:
    sizes = reported(monkeypatch)
    snapshots: dict[tuple[str, int], int] = {}
    reports: dict[tuple[str, int], int] = {}
    for rows in (50, 3_000):
        for kind in ("driver", "files"):
            files = files_in_parts(tmp_path / f"{kind}{rows}")
            files.parts = files.parts if kind == "files" else None
            happens(files, rows)
            sizes.clear()
            report = files.backfill(3, BackfillOrder(CUT_MS, slices=SliceLimits(interval_ms=9_000)))
            assert report.slices > 2
            ((size,),) = files.rows("(select max(bytes) from rowtide_snapshots)")
            snapshots[kind, rows], reports[kind, rows] = int(str(size)), max(sizes)
    for found in (snapshots, reports):
        assert found["driver", 3_000] > 2 * found["driver", 50]
        assert found["files", 3_000] < 1.1 * found["files", 50]


def test_tables_and_their_sizes_are_listed_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_in_parts(tmp_path / "files")
    history(files)
    files.backfill(3, SLICED)
    with monkeypatch.context() as closed:
        closed.setattr(FileParts, "read", None)
        listed = json.loads(files.call("state list", "--json"))["operators"]
    (named_clicks,) = [each for each in listed if each["operator"] == "AsOfJoin"]
    assert named_clicks["rows"] > 0
    assert named_clicks["bytes"] > 0


@pytest.fixture
def backfilled(tmp_path: Path) -> Iterator[Files]:
    files = files_in_parts(tmp_path / "files")
    history(files)
    files.backfill(3, SLICED)
    yield files


def test_a_service_refuses_a_state_that_does_not_fit(
    backfilled: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backfilled.contents()
    with monkeypatch.context() as small, pytest.raises(StatementError) as refused:
        small.setattr(gathered, "available_bytes", lambda: 1_000)
        backfilled.live(3)
    assert re.search(r"does not fit .* it is 0\.\d MB, .*; 0\.0 MB are free", refused.value.message)
    assert "rowtide backfill --from watermark" in str(refused.value.hint)
    backfilled.live(3)
    assert backfilled.contents().keys() == before.keys()


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a store is asked by a process that removes parts, and its signs of life, from now on."""
    found: list[str] = []
    names, drop, beat = FileParts.names, FileParts.drop, Heart.beat_if_due

    def listing(store: FileParts, folder: str) -> Sequence[str]:
        found.append("list")
        return names(store, folder)

    def dropping(store: FileParts, gone: Collection[str]) -> None:
        found.append(f"drop {len(gone)}")
        drop(store, gone)

    def beating(heart: Heart) -> None:
        found.append("beat")
        beat(heart)

    monkeypatch.setattr(FileParts, "names", listing)
    monkeypatch.setattr(FileParts, "drop", dropping)
    monkeypatch.setattr(Heart, "beat_if_due", beating)
    return found


def test_a_service_removes_a_few_parts_with_each_snapshot_and_then_asks_no_more(
    backfilled: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, rng = len(stored(backfilled)), random.Random(6)
    monkeypatch.setattr(collecting, "NAMES_AT_ONCE", count // 2)
    found = asked(monkeypatch)
    backfilled.batches(3, 14, lambda: backfilled.happen(rng), snapshot_rows=1)
    sizes = [int(each.split()[1]) for each in found if each.startswith("drop")]
    assert sum(sizes) == count
    assert max(sizes) == count // 2
    assert len(sizes) > 1
    assert not stored(backfilled)
    assert [each for each in found if each != "beat"][-1] == f"drop {sizes[-1]}"
    ((commits,),) = backfilled.rows("(select commits from rowtide_pipelines)")
    found.clear()
    backfilled.batches(3, 6, lambda: backfilled.happen(rng), snapshot_rows=1)
    ((more,),) = backfilled.rows("(select commits from rowtide_pipelines)")
    assert int(str(more)) > int(str(commits)) + 1
    assert [each for each in found if each != "beat"] == ["list"]


def test_a_backfill_removes_all_parts_after_each_slice_and_shows_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "NAMES_AT_ONCE", 3)
    files = files_in_parts(tmp_path / "files")
    history(files)
    found = asked(monkeypatch)
    files.backfill(3, SLICED)
    assert stored(files) == named(files)
    drops = [at for at, each in enumerate(found) if each.startswith("drop")]
    assert len(drops) > 4
    assert {found[at] for at in drops} <= {"drop 1", "drop 2", "drop 3"}
    assert all(found[at + 1] == "beat" for at in drops)


def test_a_snapshot_that_is_replaced_while_it_is_read_is_not_damaged(backfilled: Files) -> None:
    rng = random.Random(6)
    with open_pipeline(planned(backfilled.text, str(backfilled.sql)), "idle") as pipeline:
        snapshot = pipeline.ledger.newest_snapshot()
        assert snapshot is not None
        backfilled.batches(3, 6, lambda: backfilled.happen(rng), snapshot_rows=1)
        assert not stored(backfilled)
        with pytest.raises(ReplacedSnapshotError):
            list(snapshot.state.values())
        newest = pipeline.ledger.newest_snapshot()
        assert newest is not None
        assert list(newest.state.values())


@pytest.mark.parametrize("harm", ["changed", "cut", "missing"])
def test_a_part_that_is_not_as_it_was_written_is_never_read(backfilled: Files, harm: str) -> None:
    live = backfilled.contents()
    folder = backfilled.database.parent / "parts"
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        content = path.read_bytes()
        match harm:
            case "changed":
                path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
            case "cut":
                path.write_bytes(content[:-1])
            case "missing":
                path.unlink()
    with pytest.raises(StatementError) as refused:
        backfilled.live(3)
    assert re.search(
        "is missing" if harm == "missing" else "is damaged: its checksum differs", refused.value.message
    )
    # What the hint says helps: the log is read again.
    assert "state drop" in str(refused.value.hint)
    backfilled.call("state drop", "--snapshots", "--yes")
    backfilled.live(3)
    assert backfilled.contents() == live
    assert "Equal" in backfilled.call("replay", "--compare")


def test_a_dropped_pipeline_says_which_files_stay(backfilled: Files) -> None:
    where = backfilled.database.parent / "parts"
    backfilled.config.write_text(f'{backfilled.config.read_text()}[checkpoint]\nparts = "{where}"\n')
    said = backfilled.call("state drop", "--all", "--yes")
    ((folder,),) = [re.findall(r'may still be in (?s:.*): remove the folder "(\w+)"', said)]
    assert {each.partition("/")[0] for each in stored(backfilled)} == {folder}
    # One without state in parts says nothing of it.
    assert "folder" not in backfilled.call("state drop", "--all", "--yes", code=1)


def test_another_store_is_refused(backfilled: Files, tmp_path: Path) -> None:
    other = FileParts(str(tmp_path / "other"))
    later = replace(SLICED, until_ms=CUT_MS + 1, begin=StartEdge.WATERMARK)
    backfilled.parts = other
    with pytest.raises(StatementError, match="the state is in parts at"):
        backfilled.backfill(3, later)
    # Without the setting the driver collects it, and the next slice may keep it elsewhere.
    history(backfilled, 2, 5)
    before = named(backfilled)
    backfilled.parts = None
    backfilled.backfill(3, later)
    assert named(backfilled) < before
    history(backfilled, 3, 5)
    backfilled.parts = other
    backfilled.backfill(3, replace(later, until_ms=CUT_MS + 2))
    assert in_folder(tmp_path / "other") == named(backfilled)
    assert "Equal" in backfilled.call("replay", "--compare")
