"""Faults lie in files of tasks; however many there are, one step of a plan reads them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rowtide.errors import Reason
from rowtide.operators.contract import Fault
from rowtide.runners.spark.faults import FaultFiles
from rowtide.runners.spark.given import FAULTS_AT_ONCE, Layout, TaskFiles
from spark_stand_in import StandIn


def fault(origin: int, counter: int) -> Fault:
    return Fault("TRIPS", Reason.LATE, f"row {counter}", 0, origin, counter, (counter,))


def written(folder: Path, faults: list[Fault]) -> str | None:
    files = TaskFiles(Layout(str(folder), 1, {}, frozenset(), has_seq=False), {})
    files.faults(faults)
    return files.close().faults


@pytest.mark.parametrize("count", [1, 2, 500])
def test_faults_of_many_files_are_read_by_one_job(tmp_path: Path, count: int) -> None:
    session = StandIn(3)
    files = FaultFiles(session.as_session())
    given = [[fault(number % 2, 10 * number + each) for each in range(2)] for number in range(count)]
    files.add(written(tmp_path, each) for each in given)
    rows = files._told({0: ("TRIPS", 4)}).collect()
    assert session.jobs == [min(count, 3)]
    assert files.count() == len(rows) == 2 * count
    found = [(row[2], pickle.loads(bytes(row[6]))) for row in rows]
    assert found == [(turn, each) for turn, held in enumerate(given) for each in held]
    assert {(row[0], row[4], row[5]) for row in rows} <= {(0, "TRIPS", 4), (1, None, None)}


def test_a_file_of_many_faults_is_read_piece_by_piece(tmp_path: Path) -> None:
    session = StandIn(2)
    files = FaultFiles(session.as_session())
    files.add([written(tmp_path, [fault(0, each) for each in range(2 * FAULTS_AT_ONCE + 1)]), None])
    assert [row[1] for row in files._told({}).collect()] == list(range(2 * FAULTS_AT_ONCE + 1))
