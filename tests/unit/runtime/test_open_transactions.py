"""Transactions of Kafka that stay open: what they keep back is in the log, so its partition is not silent.

Without that, a partition would follow the broker's clock, or the others after its idle_timeout, past rows that are
written already, and those would be late when the transaction ends.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rowtide.runners.spark import frames
from rowtide_connectors.memory.source import MemorySource
from support.history import IDLE, STAMPED, Files

POLICIES = pytest.mark.parametrize(
    ("append_times", "idle"), [(True, ""), (False, IDLE), (True, IDLE)], ids=["broker", "idle", "both"]
)
TOPIC = "clicks"


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


class Producers:
    """Write clicks to three partitions, with the time of now; some in transactions that stay open for a while."""

    def __init__(self, files: Files, seed: int) -> None:
        self.files, self.rng = files, random.Random(seed)
        self.open: set[int] = set()

    def write(self) -> None:
        """Do something in each partition, or nothing."""
        broker = self.files.broker
        for partition in range(3):
            draw = self.rng.random()
            if draw < 0.1 and partition not in self.open:
                broker.begin_transaction(TOPIC, partition=partition)
                self.open.add(partition)
            elif draw > 0.9:
                self.end(partition)
            if self.rng.random() < (0.9, 0.4, 0.1)[partition]:
                self.files.clicks += 1
                self.files.produce(TOPIC, 0, f'"id":1,"n":{self.files.clicks}', partition)

    def end(self, partition: int) -> None:
        if partition in self.open:
            self.open.discard(partition)
            self.files.broker.end_transaction(TOPIC, partition=partition)

    def finish(self) -> None:
        """End all transactions, and let each partition say that time went on."""
        for partition in range(3):
            self.end(partition)
            self.files.promise(TOPIC, 0, partition)


def world(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, append_times: bool, idle: str, seed: int
) -> tuple[Files, Producers]:
    monkeypatch.setattr(MemorySource, "has_append_times", lambda _self: append_times)
    monkeypatch.setattr("support.history.SQL", STAMPED)
    files = Files(folder, idle)
    return files, Producers(files, seed)


def expect_all_rows(files: Files) -> None:
    assert files.rows("rowtide_errors") == []
    assert {row[2] for row in files.rows("everything")} == set(range(1, files.clicks + 1))
    assert len(files.rows("everything")) == files.clicks


@POLICIES
@pytest.mark.parametrize(
    ("runner", "seed"),
    [
        ("live", 1),
        ("batches", 2),
        *(pytest.param("live", seed, marks=pytest.mark.long) for seed in range(3, 9)),
    ],
)
def test_no_row_is_late_because_its_transaction_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append_times: bool, idle: str, runner: str, seed: int
) -> None:
    files, producers = world(tmp_path / "files", monkeypatch, append_times=append_times, idle=idle, seed=seed)
    if runner == "live":
        files.live(30, producers.write)
    else:
        files.batches(3, 25, producers.write)
    producers.finish()
    files.live(5)
    assert files.clicks > 20
    expect_all_rows(files)


@POLICIES
def test_a_cut_at_an_open_transaction_is_not_the_end_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append_times: bool, idle: str
) -> None:
    files, producers = world(tmp_path / "files", monkeypatch, append_times=append_times, idle=idle, seed=3)
    for _ in range(20):
        files.clock.sleep(1)
        producers.write()
    for partition in (0, 1):
        producers.end(partition)
    producers.end(2)
    files.broker.begin_transaction(TOPIC, partition=2)
    producers.open.add(2)
    files.clicks += 1
    files.produce(TOPIC, 0, f'"id":1,"n":{files.clicks}', 2)
    files.clock.sleep(60)
    for partition in (0, 1):
        files.clicks += 1
        files.produce(TOPIC, 0, f'"id":1,"n":{files.clicks}', partition)
    files.clock.sleep(60)
    report = files.backfill(3)
    (keeper,) = report.held_back
    assert (keeper.partition, keeper.messages_left) == (2, True)
    (own,) = [
        each for each in json.loads(files.call("positions", "--json"))["positions"] if each["partition"] == 2
    ]
    assert own["lag"] == 1, "what is written and not committed yet is not read"
    producers.finish()
    files.live(5)
    expect_all_rows(files)
