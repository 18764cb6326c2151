"""The line that `rowtide run` writes on a terminal each ten seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rowtide.cli.run.progress_lines import progress_line, progress_lines, wants_lines
from rowtide.config.settings import LogSettings
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.service import Service
from rowtide.runtime.state.status import PartitionStatus, ReplicaStatus, Snapshot
from rowtide.runtime.state.tally import RunSummary
from support.pipeline import PipelineFiles
from support.waiting import wait_until

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (n INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE seen (n INTEGER) SERVER d;
CREATE PUMP p AS INSERT INTO seen SELECT STREAM n FROM readings;
"""
BEFORE = Snapshot("p", "running", 0, 0.0, summary=RunSummary(read=36_220))
NOW = Snapshot(
    "p",
    "running",
    0,
    0.0,
    positions=(
        PartitionStatus("O", "orders", 0, 90, 0, 100, None),
        PartitionStatus("O", "orders", 1, 7, 0, 7, 0),
    ),
    summary=RunSummary(40_240, 54, {"A": 1_200, "B": 60}, {"O": 2}, {"O": 1, "V": 3}),
)
COUNTS = "read 40,240 (402/s), written 1,260, late 2, rejected 4, held 54, lag 10"
IDLE = HoldingPartition("IDLE", "O", "orders", 3, None, None, "", "", "", 54, ("W",), (0,), ("O",))
UNKNOWN_END = replace(NOW, positions=(PartitionStatus("O", "orders", 0, 90, 0, None, None),))
FOLLOWER = replace(NOW, phase="following", summary=None, replica=ReplicaStatus("follower", lag_commits=3))


@pytest.mark.parametrize(
    ("now", "held_back", "line"),
    [
        (NOW, (), f"running: {COUNTS}"),
        (NOW, (IDLE,), f'running: {COUNTS}; 54 rows wait for partition 3 of topic "orders" (IDLE)'),
        (NOW, (replace(IDLE, rows=1, topic=None),), f'running: {COUNTS}; 1 row waits for "O" (IDLE)'),
        (
            NOW,
            (replace(IDLE, topic=None, cause="NOT_FED"), IDLE),
            f'running: {COUNTS}; 54 rows wait for "O" and 1 more (NOT_FED)',
        ),
        # What is down comes first.
        (
            replace(NOW, phase="waiting", waits_for='broker of "O"'),
            (IDLE,),
            f'waiting: {COUNTS}; waits for the broker of "O"',
        ),
        (UNKNOWN_END, (), f"running: {COUNTS.replace('lag 10', 'lag unknown')}"),
        (replace(NOW, phase="recovering", summary=None), (), "recovering"),
        (FOLLOWER, (), "following: 3 commits behind"),
    ],
)
def test_the_line_says_what_was_done_and_what_is_waited_for(
    now: Snapshot, held_back: tuple[HoldingPartition, ...], line: str
) -> None:
    assert progress_line(now, BEFORE, 10.0, held_back) == line


def test_what_was_read_before_the_first_line_counts() -> None:
    # Another run of the pipeline, as after a take-over, counts from 0.
    assert " (0/s), " in progress_line(BEFORE, NOW, 10.0, ())
    assert progress_line(NOW, replace(BEFORE, summary=None), 10.0, ()).startswith(
        "running: read 40,240 (4,024/s)"
    )


@pytest.mark.parametrize(
    ("out", "error", "written_as", "wanted"),
    [
        (True, True, "auto", True),
        (True, False, "auto", False),
        (True, False, "text", True),
        (True, True, "json", False),
        (False, True, "auto", False),
        (False, True, "text", False),
    ],
)
def test_a_person_must_look_on(
    monkeypatch: pytest.MonkeyPatch, out: bool, error: bool, written_as: str, wanted: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: out))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: error))
    assert wants_lines(LogSettings(format=written_as)) is wanted


def test_lines_are_written_until_the_run_ends(capsys: pytest.CaptureFixture[str]) -> None:
    looks: list[None] = []
    service = SimpleNamespace(
        board=SimpleNamespace(status=lambda: NOW),
        progress=SimpleNamespace(watch=lambda: looks.append(None), held_back=(IDLE,)),
    )
    with progress_lines(cast("Service", service), each_s=0.002):
        wait_until(lambda: len(looks) >= 3)
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith('; 54 rows wait for partition 3 of topic "orders" (IDLE)')
    assert "rowtide-lines" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("looks_on", [True, False])
def test_run_writes_lines_if_somebody_looks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_on: bool
) -> None:
    begun: list[object] = []

    @contextmanager
    def recorded(service: Service) -> Iterator[None]:
        begun.append(service)
        yield

    monkeypatch.setattr("rowtide.cli.run.run.wants_lines", lambda log: looks_on)
    monkeypatch.setattr("rowtide.cli.run.run.progress_lines", recorded)
    files = PipelineFiles(tmp_path, SQL, '[service]\nlisten = "127.0.0.1:0"\n')
    files.broker.ensure_topic("readings", 1)
    files.call("run", "--until-end")
    assert len(begun) == looks_on
