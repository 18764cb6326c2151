"""A backfill in slices: killed anywhere it continues after its last slice, and a service and it take turns.

On a stand-in for Spark, with the broker in memory and SQLite.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rowtide.cli.run.backfill import _as_json, _shown
from rowtide.errors import StatementError, SupersededError
from rowtide.runners.spark import frames, together
from rowtide.runners.spark.shuffle.exchange import Exchange, TaskFunction
from rowtide.runners.spark.shuffle.held import StageBlocks, StageGiven
from rowtide.runtime.backfill import backfill as backfill_module
from rowtide.runtime.backfill import begin as begin_module
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.crashpoints import CrashAt, SimulatedCrash, raise_crash
from rowtide.runtime.leadership.heart import Heart
from rowtide.runtime.leadership.watch import USUAL
from rowtide.runtime.recovery.begin import StartEdge, StartTimestamp
from support.deaths import DEATHS_IN_COMMITS
from support.history import CUT_MS, ERRORS, Files
from support.seeds import seeds

SECONDS = 40
SLICES = 5
"""Intervals of 11 seconds that these 40 lie in."""
SLICED = BackfillOrder(CUT_MS, slices=SliceLimits(interval_ms=11_000))


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


def history(files: Files, seed: int = 1, seconds: int = SECONDS) -> random.Random:
    """Let clicks, users and alarms come for a while, some late and some that are no JSON; nobody reads them."""
    rng = random.Random(seed)
    for _ in range(seconds):
        files.clock.sleep(1)
        files.happen(rng)
    return rng


def killed(files: Files, point: str, count: int, order: BackfillOrder = SLICED) -> None:
    """Run a backfill that is killed."""
    with pytest.raises(SimulatedCrash):
        files.backfill(3, order, CrashAt(point, count, raise_crash))


@pytest.mark.parametrize("point", DEATHS_IN_COMMITS)
def test_a_backfill_killed_at_any_step_of_a_commit_continues_after_its_last_slice(
    tmp_path: Path, point: str
) -> None:
    whole, files = Files(tmp_path / "whole", idle=""), Files(tmp_path / "killed", idle="")
    history(whole)
    files.copy(whole)
    wanted = whole.backfill(3)
    assert wanted.slices == 1
    assert whole.rows("seconds")
    assert {row[0] for row in whole.rows("rowtide_errors")}
    is_after = point in ("commit.after_commit", "commit.after_settled")
    committed = 0
    for count in (1, 2) if point == "commit.after_snapshot" else (2,):
        killed(files, point, count)
        committed += count if is_after else count - 1
    assert bool(files.rows("rowtide_positions")) is (committed > 0)
    # Its cut stays, whatever comes meanwhile.
    if committed:
        history(files, 2, 3)
    report = files.backfill(7, SLICED)
    assert report.slices + committed == SLICES
    assert files.contents() == whole.contents()
    assert files.positions() == whole.positions()
    assert files.accounts() == whole.accounts()
    again = files.backfill(3, SLICED)
    assert (again.slices, again.messages) == (0, 0)
    assert "The backfill is complete" in _shown(again)
    assert files.contents() == whole.contents()


def test_messages_and_rows_of_slices_add_up_and_replay_finds_them_equal(tmp_path: Path) -> None:
    whole, files = Files(tmp_path / "whole"), Files(tmp_path / "sliced")
    history(whole)
    files.copy(whole)
    one, many = whole.backfill(3), files.backfill(3, SLICED)
    assert many.slices == SLICES
    assert (many.messages, many.errors) == (one.messages, one.errors)
    assert many.positions == one.positions
    assert files.contents() == whole.contents()
    assert json.loads(json.dumps(_as_json(many)))["slices"] == SLICES
    assert "Equal" in files.call("replay", "--compare")
    files.call("state drop", "--snapshots", "--yes")
    assert "Equal" in files.call("replay", "--compare")


def test_bound_records_that_go_back_are_the_error_rows_of_a_service(tmp_path: Path) -> None:
    live, whole, sliced = (Files(tmp_path / name, idle="") for name in ("live", "whole", "sliced"))
    rng = random.Random(1)
    for _ in range(SECONDS):
        live.clock.sleep(1)
        live.click(rng)
        live.promise("clicks", rng.choice((2_000, 3_000, 15_000)), rng.randrange(3))
    for each in (whole, sliced):
        each.copy(live)
    live.live(10)
    whole.backfill(3)
    assert sliced.backfill(7, SLICED).slices == SLICES
    assert sum(row[0] == "REJECTED" and "cannot go back" in str(row[2]) for row in live.rows(ERRORS)) > 5
    assert whole.contents() == sliced.contents() == live.contents()
    assert whole.accounts() == sliced.accounts() == live.accounts()


def test_replicas_wait_for_a_backfill_and_take_over_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, undisturbed = Files(tmp_path / "files", idle=""), Files(tmp_path / "undisturbed", idle="")
    history(files)
    undisturbed.copy(files)
    seen = files.work_long(monkeypatch)
    files.backfill(3)
    assert len(seen) == 12
    assert files.pulse().has_resigned
    monkeypatch.undo()
    undisturbed.backfill(3)
    assert files.contents() == undisturbed.contents()


def test_a_backfill_that_was_superseded_ends_while_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path / "files", idle="")
    history(files)
    monkeypatch.setattr(frames, "FEW_ROWS", 20_000)
    monkeypatch.setattr(together, "WAITING_S", 0.001)
    noticed = threading.Event()
    run_here, beat_if_due = Exchange.run_here, Heart.beat_if_due

    def superseded(exchange: Exchange, blocks: StageBlocks, work: TaskFunction) -> StageGiven | None:
        with closing(sqlite3.connect(files.database)) as connection:
            connection.execute("update rowtide_pipelines set epoch = epoch + 1, holder = 'another one'")
            connection.commit()
        files.clock.seconds += USUAL.beat_s
        assert noticed.wait(60)
        return run_here(exchange, blocks, work)

    def notices(heart: Heart) -> None:
        try:
            beat_if_due(heart)
        except SupersededError:
            noticed.set()
            raise

    monkeypatch.setattr(Exchange, "run_here", superseded)
    monkeypatch.setattr(Heart, "beat_if_due", notices)
    with pytest.raises(SupersededError, match="taken by another one"):
        files.backfill(3)
    assert noticed.is_set()
    assert not files.rows("seconds")


def test_progress_is_shown_after_each_slice(tmp_path: Path) -> None:
    files = Files(tmp_path / "sliced", idle="")
    history(files)
    lines: list[str] = []
    report = files.backfill(3, SLICED, tell=lambda done, progress: lines.append(progress.shown(done)))
    assert [line.split()[:2] for line in lines] == [["slice", str(number)] for number in range(1, SLICES + 1)]
    assert "100%" in lines[-1]
    assert "left" not in lines[-1]
    assert "s left" in lines[0]
    assert report.slices == SLICES


@pytest.mark.parametrize("seed", seeds(4, few=1))
def test_a_service_and_a_backfill_take_turns(tmp_path: Path, seed: int) -> None:
    """From any positions, those of a service that was killed too: rows, errors and bounds are as all live."""
    live, turns = Files(tmp_path / "live", idle=""), Files(tmp_path / "turns", idle="")
    rng = random.Random(seed)
    goes_on = BackfillOrder(CUT_MS, StartEdge.WATERMARK)
    for turn in range(4):
        history(live, seed * 10 + turn, rng.randrange(4, 14))
        turns.copy(live)
        if (turn + seed) % 2:
            order = replace(
                goes_on, until_ms=CUT_MS + turn, slices=SliceLimits(messages=rng.choice((0, 9, 30)))
            )
            turns.backfill(rng.choice((1, 3)), order)
        else:
            turns.live(4)
    history(live, seed, 5)
    turns.copy(live)
    turns.live(6)
    live.live(12)
    assert live.rows("named")
    assert live.rows("seconds")
    assert turns.contents() == live.contents()
    assert turns.accounts() == live.accounts()
    assert turns.positions() == live.positions()
    assert "Equal" in turns.call("replay", "--compare")


def unfinished(files: Files) -> None:
    history(files, 1, 30)
    killed(files, "commit.after_commit", 1)


def served(files: Files) -> None:
    history(files, 1, 8)
    files.live(4)
    history(files, 2, 5)


@pytest.mark.parametrize(
    ("begin", "order", "answer"),
    [
        (unfinished, SLICED, None),
        (unfinished, replace(SLICED, begin=StartTimestamp(0)), None),
        (
            unfinished,
            replace(SLICED, until_ms=CUT_MS - 1),
            r"an unfinished backfill until .*--from watermark",
        ),
        (unfinished, replace(SLICED, until_ms=CUT_MS - 1, begin=StartEdge.WATERMARK), None),
        (served, SLICED, r"has committed positions: a backfill would repeat .*--from watermark"),
        (served, replace(SLICED, begin=StartEdge.EARLIEST), "--from is not allowed"),
        (served, replace(SLICED, begin=StartEdge.WATERMARK), None),
    ],
)
def test_what_is_continued_and_what_is_refused(
    tmp_path: Path, begin: Callable[[Files], None], order: BackfillOrder, answer: str | None
) -> None:
    files = Files(tmp_path / "files", idle="")
    begin(files)
    before = files.contents(), files.positions()
    if answer is None:
        assert files.backfill(3, order).slices > 0
        assert files.contents() != before[0]
        return
    with pytest.raises(StatementError) as refused:
        files.backfill(3, order)
    assert re.search(answer, f"{refused.value.message} {refused.value.hint}")
    assert (files.contents(), files.positions()) == before


def test_a_service_that_went_on_is_not_continued_by_itself(tmp_path: Path) -> None:
    files = Files(tmp_path / "files", idle="")
    unfinished(files)
    files.live(1)
    with pytest.raises(StatementError, match="has committed positions"):
        files.backfill(3, SLICED)
    files.backfill(3, replace(SLICED, begin=StartEdge.WATERMARK))
    assert "Equal" in files.call("replay", "--compare")


def test_a_backfill_of_a_part_of_history(tmp_path: Path) -> None:
    files = Files(tmp_path / "files", idle="")
    history(files)
    middle = files.clock.now_ms() - 20_000
    report = files.backfill(3, replace(SLICED, begin=StartTimestamp(middle)))
    assert 1 < report.slices < SLICES
    starts = files.rows("(select relation, partition, start_offset from rowtide_positions)")
    assert all(start for relation, _, start in starts if relation == "CLICKS")
    assert "Equal" in files.call("replay", "--compare")


def test_missing_tables_are_not_created_again(tmp_path: Path) -> None:
    files = Files(tmp_path / "files", idle="")
    unfinished(files)
    before = files.positions()
    with sqlite3.connect(files.database) as connection:
        connection.execute("drop table named")
    with pytest.raises(StatementError, match='its output tables "NAMED" do not exist'):
        files.backfill(3, SLICED)
    assert files.positions() == before


def test_the_command_needs_no_spark_to_say_that_the_cut_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path / "files", idle="")
    history(files, 1, 5)
    files.backfill(3)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "The backfill is complete" in files.call("backfill", "--until", str(CUT_MS))
    said = files.call("backfill", "--until", str(CUT_MS), "--json")
    assert json.loads(said.splitlines()[-1])["slices"] == 0
    assert "was backfilled until" in files.call("backfill", "--until", str(CUT_MS - 1), code=2)


def test_a_commit_that_is_on_its_way_when_the_next_process_starts_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, whole = Files(tmp_path / "files", idle=""), Files(tmp_path / "whole", idle="")
    history(files)
    whole.copy(files)
    whole.backfill(3)
    unfinished_once = [lambda: killed(files, "commit.after_commit", 1)]
    read = begin_module.first_positions

    def first_positions(*given: object) -> object:
        if unfinished_once:
            unfinished_once.pop()()
        return read(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(backfill_module, "first_positions", first_positions)
    assert files.backfill(3, SLICED).slices == SLICES - 1
    assert files.contents() == whole.contents()
    assert files.positions() == whole.positions()
