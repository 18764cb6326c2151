"""rowtide apply: what is kept goes on as if nothing had been, what is new begins there, in one commit."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowtide.errors import TransientError
from rowtide.runtime.change.applying import apply
from rowtide.runtime.change.switching import apply_at
from rowtide.runtime.crashpoints import CrashAt, CrashPoints, NoCrash, SimulatedCrash, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from support.pipeline import PipelineFiles, process_of

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE VIEW sorted AS SELECT STREAM sensor, amount FROM readings ORDER BY ROWTIME WITHIN INTERVAL '5' SECOND;
CREATE VIEW per_minute AS
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, SUM(amount) AS total
  FROM sorted GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), total INTEGER) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes SELECT STREAM period, sensor, total FROM per_minute;
"""
MORE = """
CREATE TABLE latest_of (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE FOREIGN STREAM others (sensor VARCHAR(8)) SERVER k OPTIONS (topic 'others', format 'JSON');
CREATE FOREIGN TABLE seen (sensor VARCHAR(8)) SERVER d;
CREATE PUMP p2 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount FROM sorted;
CREATE PUMP p3 STARTED AS INSERT INTO latest SELECT sensor, amount FROM latest_of;
CREATE PUMP p4 STARTED AS INSERT INTO seen SELECT STREAM sensor FROM others;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[checkpoint]
snapshot_rows = 0
snapshot_interval_s = 0
"""


class Files(PipelineFiles):
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(folder, SQL, CONFIG, name="r")
        self.was = folder / "was.sql"
        self.was.write_text(self.text)
        self.broker.ensure_topic("readings", 2)
        self.broker.ensure_topic("others", 1)
        self.number = 0

    def produce(self, count: int) -> None:
        for _ in range(count):
            number = self.number = self.number + 1
            value = b'{"sensor":"s%d","amount":%d}' % (number % 3, number)
            at = 1_000 * number - (3_000 if number % 7 == 0 else 0)
            self.broker.produce("readings", [value], timestamps=[at], partition=number % 2)
            self.broker.produce("others", [b'{"sensor":"o"}'], timestamps=[at])

    def change(self, text: str) -> None:
        self.sql.write_text(text)


def straight(folder: Path) -> list[tuple[Any, ...]]:
    files = Files(folder / "straight")
    files.produce(400)
    files.run()
    return files.rows("minutes")


def context_for(pipeline: Pipeline, crash_points: CrashPoints | None = None) -> PipelineContext:
    return process_of(pipeline, Pace(0, 0, None, None), crash_points=crash_points or NoCrash())


def test_what_is_kept_goes_on_and_what_is_new_begins_there(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    files.change(files.text + MORE)
    assert "under another plan" in files.call("run", "--until-end", code=2)
    assert "Add --yes" in files.call("apply", "--was", str(files.was), code=2)
    assert "Applied with commit" in files.call("apply", "--was", str(files.was), "--yes")
    assert files.call("apply", "--was", str(files.sql), "--yes") == "Nothing has changed.\n"
    files.run()
    # A new stream is read from its beginning, a new reader of an old one from here.
    assert len(files.rows("seen")) == 200 - 200 // 7, "every seventh is late"
    assert {row[0] for row in files.rows("latest")} <= {"s0", "s1", "s2"}
    files.produce(200)
    for _ in range(2):
        files.run()
    assert files.rows("minutes") == straight(tmp_path)
    assert len(files.rows("latest")) == 3
    # What was before cannot be replayed, and the state that stands for it is not dropped by mistake.
    assert "the plan was changed at commit" in files.call("replay", "--compare", code=2)
    assert "cannot continue" in files.call("state drop", "--snapshots", "--yes", code=2)


def test_a_change_that_loses_state_must_be_meant_and_one_of_a_stream_is_refused(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    files.change(files.text.replace("TO MINUTE", "TO HOUR"))
    assert "the state of PER_MINUTE would be lost" in files.call(
        "apply", "--was", str(files.was), "--yes", code=2
    )
    files.call("apply", "--was", str(files.was), "--yes", "--lose")
    files.run()
    files.was.write_text(files.sql.read_text())
    files.change(files.sql.read_text().replace("amount INTEGER)", "amount INTEGER, more INTEGER)"))
    assert 'stream "READINGS" has changed' in files.call(
        "apply", "--was", str(files.was), "--yes", "--lose", code=2
    )


def test_a_dry_run_says_whether_a_change_can_be_applied_and_changes_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    dry = ("apply", "--was", str(files.was), "--dry-run")
    refused = {
        "the state of PER_MINUTE would be lost": ("TO MINUTE", "TO HOUR"),
        'stream "READINGS" has changed': ("amount INTEGER)", "amount INTEGER, more INTEGER)"),
    }
    for reason, change in refused.items():
        files.change(files.text.replace(*change))
        assert reason in files.call(*dry, *(["--lose"] if "stream" in reason else []), code=2)
    files.change(files.text.replace("TO MINUTE", "TO HOUR"))
    assert "The change can be applied" in files.call(*dry, "--lose")
    files.change(files.text + MORE)
    assert "The change can be applied" in files.call(*dry)
    with pytest.raises(sqlite3.OperationalError):
        files.rows("seen")
    files.change(files.text)
    files.run()


def test_a_change_that_has_been_applied_is_not_applied_again(tmp_path: Path) -> None:
    """A job that is repeated still names the file that ran before."""
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    files.change(files.text + MORE)
    files.call("apply", "--was", str(files.was), "--yes")
    for more in ((), ("--dry-run",), ("--yes",)):
        assert files.call("apply", "--was", str(files.was), *more) == "Nothing has changed.\n"


def test_state_without_rows_may_be_left_without_saying_so(tmp_path: Path) -> None:
    for has_rows in (False, True):
        files = Files(tmp_path / f"changed {has_rows}")
        files.config.write_text(CONFIG.replace("snapshot_rows = 0", "snapshot_rows = 1"))
        # It waits in the sort, so no group has begun.
        files.broker.produce("readings", [b'{"sensor":"s1","amount":1}'], timestamps=[60_000])
        files.run()
        files.config.write_text(CONFIG)
        if has_rows:
            # The newest snapshot says that there is none, the state at the positions has a group.
            for partition in range(2):
                value = b'{"sensor":"s1","amount":1}'
                files.broker.produce(
                    "readings", [value] * 2, timestamps=[61_000, 70_000], partition=partition
                )
            files.run()
        files.change(files.text.replace("TO MINUTE", "TO HOUR"))
        ask = ("apply", "--was", str(files.was), "--yes")
        assert "the state of PER_MINUTE would be lost" in files.call(
            *ask, "--at", "2030-01-01 00:00:00", code=2
        )
        answer = files.call(*ask, code=2 if has_rows else 0)
        assert "PER_MINUTE               GroupByPeriod    0 rows in the newest snapshot" in answer
        assert ("the state of PER_MINUTE would be lost" in answer) is has_rows
        assert ("Applied with commit" in answer) is not has_rows
        assert "Apply the change with `rowtide apply`" not in answer


TENFOLD = ("SUM(amount)", "SUM(amount * 10)")


def test_at_a_rowtime_every_row_is_of_one_file_and_the_next_period_is_whole(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    files.produce(200)
    files.broker.produce("readings", [b"{bad", b"{bad"], timestamps=[210_000, 250_000])
    files.change(files.text.replace(*TENFOLD))
    switch = ("apply", "--was", str(files.was), "--lose", "--yes", "--at")
    # 200 s are read: the third minute is out, the fourth ends at four.
    assert "may have been written already" in files.call(*switch, "1970-01-01 00:03:00", code=2)
    assert "Applied with commit" in files.call(*switch, "1970-01-01 00:04:00")
    files.run()
    unchanged = straight(tmp_path)
    expected = [
        (period, sensor, total * (10 if str(period) >= "1970-01-01 00:04:00" else 1))
        for period, sensor, total in unchanged
    ]
    assert files.rows("minutes") == expected
    assert expected != unchanged
    # Both files have met the bad messages; each is reported once.
    assert len(files.rows("rowtide_errors")) == 2


def test_a_rowtime_that_is_not_passed_switches_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    with (
        open_pipeline(plan_pipeline(files.text), "r") as before,
        open_pipeline(plan_pipeline(files.text.replace(*TENFOLD)), "r") as after,
        pytest.raises(TransientError, match="nothing was switched"),
    ):
        turns = iter([False] * 20)
        older = replace(context_for(before), stopping=lambda: next(turns, True))
        apply_at(older, context_for(after), 10**9)
    files.produce(200)
    files.run()
    assert files.rows("minutes") == straight(tmp_path)


def test_in_shadow_the_rows_are_shown_that_a_change_would_have_given_otherwise(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()
    before = files.rows("minutes")
    shadow = ("apply", "--was", str(files.was), "--shadow")
    files.change(files.text.replace("SUM(amount)", "SUM(CASE WHEN sensor = 's1' THEN 0 ELSE amount END)"))
    answer = files.call(*shadow, code=1)
    minutes = sum(row[1] == "s1" for row in before)
    assert f"{2 * minutes} rows differ" in answer
    assert "recomputed: PERIOD 1970-01-01 00:00:00.000, SENSOR s1, TOTAL 0" in answer
    assert "from READINGS partition 0" in answer
    # Of the first minute alone; and a change that gives the same rows is seen to do so.
    assert "2 rows differ" in files.call(*shadow, "--to", "1970-01-01 00:01:00", code=1)
    files.change(files.text.replace("SUM(amount)", "SUM(amount + 0)"))
    assert "Equal" in files.call(*shadow)
    # New tables count as empty, and are not made; new streams are read.
    files.change(files.text + MORE)
    answer = files.call(*shadow, code=1)
    assert "table SEEN" in answer
    assert "committed:  no such row" in answer
    assert f"SEEN: {200 - 200 // 7} rows recomputed" in answer
    assert files.rows("minutes") == before
    with pytest.raises(sqlite3.OperationalError):
        files.rows("seen")
    assert "Add --shadow" in files.call("apply", "--was", str(files.was), "--from", "1970-01-01", code=2)
    # Nothing has been taken from the pipeline that runs.
    files.change(files.text)
    files.run()


def test_in_shadow_a_change_begins_at_the_snapshot_where_the_log_has_aged_out(tmp_path: Path) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.config.write_text(CONFIG.replace("snapshot_rows = 0", "snapshot_rows = 150"))
    files.run()
    files.produce(200)
    files.config.write_text(CONFIG)
    files.run()
    for partition in (0, 1):
        files.broker.truncate("readings", 90, partition=partition)
    files.change(files.text.replace("AS total\n", "+ 0 AS total\n"))
    shadow = ("apply", "--was", str(files.was), "--shadow")
    assert "the stored snapshot covers rows from" in files.call(*shadow, code=2)
    assert "Equal" in files.call(*shadow, "--from", "1970-01-01 00:05:00")


@pytest.mark.parametrize(
    "point",
    [
        "start.after_epoch",
        "recovery.after_replay",
        "commit.after_fence",
        "commit.after_tables",
        "commit.after_snapshot",
        "commit.after_commit",
    ],
)
def test_dying_while_it_is_applied_leaves_the_old_plan_or_the_new_one(tmp_path: Path, point: str) -> None:
    files = Files(tmp_path / "changed")
    files.produce(200)
    files.run()

    def attempt(crash_points: CrashPoints) -> None:
        newer = plan_pipeline(files.text + MORE)
        with (
            open_pipeline(plan_pipeline(files.text), "r") as before,
            open_pipeline(newer, "r") as after,
        ):
            apply(context_for(before, crash_points), context_for(after, crash_points))

    with pytest.raises(SimulatedCrash):
        attempt(CrashAt(point, 1, raise_crash))
    files.produce(100)
    if point == "commit.after_commit":
        files.change(files.text + MORE)
    else:
        # Nothing has changed: the old file goes on, and the change can be applied later.
        files.run()
        attempt(NoCrash())
        files.change(files.text + MORE)
    files.produce(100)
    files.run()
    assert files.rows("minutes") == straight(tmp_path)
    assert len(files.rows("seen")) == 400 - 400 // 7
