"""A table's topic whose producers have clocks that differ: its versions are a function of the log alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rowtide.runners.spark import frames
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.slices import SliceLimits
from support.history import CUT_MS, ERRORS, TOPICS, Files

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20)) SERVER k OPTIONS (topic 'users', format 'JSON');
CREATE FOREIGN STREAM clicks (id INTEGER, n INTEGER) SERVER k OPTIONS (topic 'clicks', format 'JSON'{idle});
CREATE FOREIGN TABLE named (at TIMESTAMP, n INTEGER, name VARCHAR(20)) SERVER d;
CREATE FOREIGN TABLE users_now (id INTEGER PRIMARY KEY, name VARCHAR(20)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named (at, n, name)
  SELECT STREAM c.ROWTIME, c.n, u.name FROM clicks AS c LEFT JOIN users AS u ON c.id = u.id;
CREATE PUMP q STARTED AS INSERT INTO users_now SELECT id, name FROM users;
"""


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)
    monkeypatch.setattr("support.history.SQL", SQL)


def change(files: Files, rng: random.Random, now: dict[int, str]) -> None:
    """Change some users, with stamps of producers whose clocks differ, and let a user click."""
    for _ in range(3):
        id_ = rng.randrange(6)
        now[id_] = f"n{rng.randrange(1_000)}"
        value = f'{{"id":{id_},"name":"{now[id_]}"}}'.encode()
        stamp = files.clock.now_ms() - rng.choice((0, 1, 400, 3_000))
        files.broker.produce("users", [value], timestamps=[stamp], partition=id_ % 2)
    files.clicks += 1
    files.produce("clicks", 0, f'"id":{rng.randrange(6)},"n":{files.clicks}')
    # Each partition says how far time went, but not that of users: their clock is that of their stamps.
    for partition in (1, 2):
        files.promise("clicks", 0, partition)


def outcome(files: Files) -> list[list[str]]:
    return [sorted(map(repr, files.rows(query))) for query in ("named", "users_now", ERRORS)]


@pytest.mark.parametrize("runner", ["backfill", "slices", "batches"])
def test_versions_of_a_table_are_the_same_wherever_its_topic_is_read(tmp_path: Path, runner: str) -> None:
    live, other = Files(tmp_path / "live", ""), Files(tmp_path / "other", "")
    rng, now = random.Random(5), dict[int, str]()
    live.live(25, lambda: change(live, rng, now))
    for topic, partitions in TOPICS.values():
        for partition in range(partitions):
            live.promise(topic, -60_000, partition)
    live.live(5)
    other.copy(live)
    if runner == "batches":
        other.batches(3, 5)
    else:
        limits = SliceLimits(messages=13) if runner == "slices" else SliceLimits()
        report = other.backfill(3, BackfillOrder(CUT_MS, slices=limits))
        assert (report.slices > 4) == (runner == "slices")
    assert live.rows(ERRORS) == []
    assert sorted(live.rows("users_now")) == sorted(now.items())
    assert len(live.rows("named")) == live.clicks > 20
    assert outcome(other) == outcome(live)
    assert "Equal" in other.call("replay", "--compare")
    assert "Equal" in live.call("replay", "--compare")
