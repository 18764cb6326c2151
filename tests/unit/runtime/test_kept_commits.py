"""The commits that a process keeps: the last ones, each with what it has read, written and refused."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rowtide.runtime.pace import Pace
from rowtide.runtime.progress import board as boards
from rowtide.runtime.service import Service
from rowtide.runtime.state.pipeline_state import SOURCE_PART, TABLE_PART
from support.progress import ran
from support.runtime import fill


def test_the_commits_of_a_run_add_up_to_its_accounts() -> None:
    world, board = ran(messages=1_200, pace=Pace(100, 100, 300, None), poll_messages=50)
    record, ledger = world.checkpoint.record, world.context().ledger
    assert record is not None
    numbers = [each.number for each in board.commits]
    assert numbers == [*range(numbers[0], record.commits + 1)]
    assert {each.epoch for each in board.commits} == {record.epoch}
    accounts = {(each.part, each.relation): each for each in ledger.accounts()}
    assert sum(each.messages for each in board.commits) == accounts[SOURCE_PART, "READINGS"].rows_in
    rows = sum((Counter(each.rows) for each in board.commits), Counter[str]())
    assert rows == {"MINUTES": accounts[TABLE_PART, "MINUTES"].done}
    assert {each.rows.get("MINUTES") for each in board.commits} > {None}
    kinds = Counter(each.kind for each in world.checkpoint.errors)
    assert sum(each.late for each in board.commits) == kinds["LATE"] > 0
    assert sum(each.rejected for each in board.commits) == kinds["REJECTED"] > 0
    stored = {each.commits: each.bytes for each in ledger.snapshots()}
    assert len(stored) == 2
    sizes = {each.number: each.snapshot_bytes for each in board.commits if each.snapshot_bytes is not None}
    assert stored.items() <= sizes.items()
    assert len(sizes) < len(numbers)


def test_the_last_commits_are_kept_and_another_start_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MOST_COMMITS", 3)
    world, board = ran(pace=Pace(100, 20, None, None), poll_messages=10)
    assert world.checkpoint.record is not None
    before = world.checkpoint.record.commits
    assert [each.number for each in board.commits] == [before - 2, before - 1, before]
    fill(world.topic, random.Random(2), 30)
    again = Service(world.context(pace=Pace(100, 20, None, None)))
    assert (again.progress.commits, again.progress.began_ms) == ((), None)
    began = world.clock.now_ms()
    again.run(until_end=True)
    assert again.progress.commits[0].number > before
    assert again.progress.began_ms is not None
    assert began <= again.progress.began_ms <= again.progress.commits[0].at_ms
