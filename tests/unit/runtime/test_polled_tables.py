"""Tables of databases as sources, in a service that dies at random: each change once, by the log."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from rowtide.checkpoint.polled_log import PolledLog
from rowtide.errors import StatementError, SupersededError
from rowtide.runtime.crashpoints import (
    POINTS,
    CrashAt,
    CrashPoints,
    NoCrash,
    SimulatedCrash,
    raise_crash,
)
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pipeline import open_pipeline, open_polled, shape_of
from rowtide.runtime.polling.options import poll_times
from rowtide.runtime.polling.topic import PolledTopic
from rowtide.runtime.service import Service
from rowtide_connectors.api import PolledTable, TableRead
from rowtide_connectors.errors import MismatchError, UnavailableError
from support.polled import BY_NUMBER, BY_TIME, COMPARED, INTERVAL_MS, DiesAnywhere, PolledWorld

StoodIn = TypeVar("StoodIn", bound=PolledTable)
POLL_POINTS = [point for point in POINTS if point.startswith("poll.")]


def finish(world: PolledWorld, crash_points: CrashPoints) -> None:
    """Poll until deletes are found and every click can be joined."""
    for _ in range(4):
        world.clock.sleep(INTERVAL_MS / 1000)
        world.run_until_done(crash_points)


def check(world: PolledWorld) -> None:
    assert world.sink("select kind, reason, relation from rowtide_errors") == []
    people = world.source("select id, name, credit from people order by id")
    assert world.sink("select id, name, credit from users_now order by id") == people
    assert world.sink("select n, who, name from named order by n") == world.expected_named()
    assert world.states()[-1][1] == {id_: name for id_, name, _ in people}


@pytest.mark.parametrize(
    ("seed", "options", "snapshot_rows"),
    [(0, COMPARED, None), (1, BY_TIME, 15), (2, BY_NUMBER, None), (3, COMPARED, 15)],
    ids=["all rows", "by time, with snapshots", "by number", "all rows, with snapshots"],
)
def test_every_change_is_joined_once_however_often_the_process_dies(
    tmp_path: Path, seed: int, options: str, snapshot_rows: int | None
) -> None:
    rng = random.Random(seed)
    world = PolledWorld(tmp_path, rng, options, snapshot_rows=snapshot_rows)
    # History: clicks from long before the first poll are joined with its rows.
    for _ in range(10):
        world.change(clicks=False)
    for at in (1_000, world.clock.now_ms() - 86_400_000):
        world.click(at)
    dies = DiesAnywhere(rng)
    for _ in range(6):
        for _ in range(rng.randrange(10)):
            world.change()
        world.clock.sleep(rng.choice((0, 1, 9, 30)))
        world.run_until_done(dies)
    finish(world, dies)
    assert world.deaths
    check(world)


@pytest.mark.parametrize("options", [COMPARED, BY_TIME], ids=["all rows", "by time"])
def test_dying_at_each_point_of_a_poll_logs_one_consistent_change(tmp_path: Path, options: str) -> None:
    for at, point in enumerate(POLL_POINTS):
        folder = tmp_path / str(at)
        folder.mkdir()
        world = PolledWorld(folder, random.Random(at), options)
        reached = 0

        def die(at: str) -> None:
            nonlocal reached
            reached += 1
            raise_crash(at)

        for round_ in range(3):
            if round_:
                world.at_source("delete from people where id < 3")
            for _ in range(8):
                world.change()
            # Both the process and its successor die, in the first poll and in later ones.
            for _ in range(2):
                world.clock.sleep(INTERVAL_MS / 1000 * 3)
                with contextlib.suppress(SimulatedCrash):
                    world.run(CrashAt(point, 1, die))
                world.change()
            world.run()
        finish(world, NoCrash())
        assert reached
        check(world)


def test_changes_of_an_interrupted_poll_and_of_the_next_one_are_one_moment(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(1))
    world.at_source("insert into people (id, name) values (1, 'a'), (2, 'b')")
    world.run()
    world.clock.sleep(30)
    at = world.clock.now_ms()
    world.at_source("update people set name = 'c' where id = 1")
    with contextlib.suppress(SimulatedCrash):
        world.run(CrashAt("poll.after_rows", 1, raise_crash))
    world.clock.sleep(60)
    world.at_source("update people set name = 'd' where id = 2")
    world.run()
    changes = list(world.log.values())[-3:]
    assert [rowtime for rowtime, _, _, promised in changes if promised is None] == [at, at]
    assert changes[-1][3] == at + 60_000 + INTERVAL_MS


def test_records_that_two_snapshots_cover_are_collected_and_the_state_stays(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(2), snapshot_rows=1)
    for _ in range(6):
        for _ in range(5):
            world.change()
        world.run()
        world.clock.sleep(INTERVAL_MS / 1000)
    finish(world, NoCrash())
    check(world)
    ((kept,),) = world.sink("select count(*) from rowtide_polled_changes")
    assert kept <= 4 < len(world.log)


def test_a_replay_computes_the_same_rows_from_the_log_when_the_database_is_gone(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(3))
    for _ in range(3):
        for _ in range(5):
            world.change()
        world.run()
        world.clock.sleep(INTERVAL_MS / 1000)
    (tmp_path / "crm.db").unlink()
    with open_pipeline(world.plan, "p") as pipeline:
        compared = compare(world.context(pipeline, NoCrash()), Range())
    assert (compared.count, compared.rows["NAMED"]) == (0, len(world.sink("select 1 from named")))


def test_a_process_without_the_epoch_logs_nothing(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(4))
    world.change()
    world.run()
    with open_pipeline(world.plan, "p") as pipeline:
        topic = pipeline.sources["USERS"]
        assert isinstance(topic, PolledTopic)
        topic.feed(1, world.clock, NoCrash())
        pipeline.ledger.claim("", "another process")
        world.clock.sleep(INTERVAL_MS / 1000)
        before = topic.ranges()
        with pytest.raises(SupersededError, match="was taken by another process"):
            topic.poll_if_due()
        assert topic.ranges() == before


def test_a_value_that_does_not_fit_is_an_error_row_and_the_earlier_row_stays(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(5))
    world.at_source("insert into people (id, name) values (1, 'ann'), (2, 'bob')")
    world.run()
    world.clock.sleep(INTERVAL_MS / 1000)
    world.at_source("update people set name = 'much too long' where id = 1")
    world.run()
    ((reason, relation, raw),) = world.sink("select reason, relation, raw from rowtide_errors")
    assert reason.startswith('TYPE: field "NAME"')
    assert (relation, json.loads(raw)["NAME"]) == ("USERS", "much too long")
    world.clock.sleep(INTERVAL_MS / 1000)
    world.run()
    assert len(world.sink("select 1 from rowtide_errors")) == 1
    assert world.sink("select id, name from users_now order by id") == [(1, "ann"), (2, "bob")]
    # Resubmitted, it is decoded again, and still does not fit.
    with open_pipeline(world.plan, "p") as pipeline:
        pipeline.ledger.resubmit(pipeline.ledger.errors())
    world.run()
    assert [reason for (reason,) in world.sink("select reason from rowtide_errors")] == [reason, reason]
    assert world.sink("select id, name from users_now order by id") == [(1, "ann"), (2, "bob")]


def test_two_rows_with_one_key_are_refused_by_name(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(6))
    world.at_source("create table pairs (id integer, name varchar(9), credit decimal(9, 2))")
    world.at_source("insert into pairs (id) values (1), (7), (7)")
    world.options = "table_name 'pairs'"
    world.sql = world.sql.replace("table_name 'people', ", "")
    with pytest.raises(StatementError, match='table "pairs" has two rows with the key'):
        world.run()


def test_two_rows_with_one_key_in_a_later_poll_are_waited_for(tmp_path: Path) -> None:
    """One row of a dimension stops no pipeline."""
    world = PolledWorld(tmp_path, random.Random(9))
    world.at_source("create table pairs (id integer, name varchar(9), credit decimal(9, 2))")
    world.at_source("insert into pairs (id, name) values (1, 'ann'), (7, 'bob')")
    world.options = "table_name 'pairs'"
    world.sql = world.sql.replace("table_name 'people', ", "")
    world.run()
    world.at_source("insert into pairs (id, name) values (7, 'eve')")
    world.clock.sleep(INTERVAL_MS / 1000)
    table = run_with(world, lambda real: MendedAt(real, 3, world))
    assert table.reads >= 3
    assert world.sink("select id, name from users_now order by id") == [(1, "ann"), (7, "eve")]


def run_with(world: PolledWorld, table_of: Callable[[PolledTable], StoodIn]) -> StoodIn:
    """Run to the ends with a table that stands in for that of users; return it."""
    with open_pipeline(world.plan, "p") as pipeline:
        (stream,) = (each for each in world.plan.foreign_streams if each.name == "USERS")
        table = table_of(open_polled(world.plan, stream))
        log = PolledLog(pipeline.database, "p", "USERS")
        sources = {
            **pipeline.sources,
            "USERS": PolledTopic(shape_of(world.plan, stream), table, log, poll_times(stream)),
        }
        Service(world.context(pipeline, NoCrash(), sources=sources)).run(until_end=True)
    return table


class MendedAt:
    """A table with two rows of one key, until somebody deletes one before a read."""

    def __init__(self, table: PolledTable, read: int, world: PolledWorld) -> None:
        self._table = table
        self._mended_at = read
        self._world = world
        self.reads = 0
        self.name = table.name
        self.check, self.close = table.check, table.close

    @contextlib.contextmanager
    def read(self, since: str | None) -> Iterator[TableRead]:
        self.reads += 1
        if self.reads == self._mended_at:
            self._world.at_source("delete from pairs where name = 'bob'")
        with self._table.read(since) as read:
            yield read


def test_a_table_that_does_not_fit_refuses_the_start(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(7))
    world.at_source("alter table people rename column name to full_name")
    with pytest.raises(MismatchError, match='column "name" is missing'):
        world.run()
    assert not world.log


def test_a_database_that_is_down_is_waited_for_and_loses_nothing(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(8))
    for _ in range(10):
        world.change()
    world.run()
    failures = 0
    for _ in range(3):
        for _ in range(5):
            world.change()
        world.clock.sleep(INTERVAL_MS / 1000)
        failures += run_with(world, lambda real: DownAtFirst(real, 4)).failed
        world.look_at_log()
    finish(world, NoCrash())
    assert failures == 12
    check(world)


class DownAtFirst:
    """A table whose first reads fail, at once or after some rows."""

    def __init__(self, table: PolledTable, failures: int) -> None:
        self._table = table
        self._left = failures
        self.failed = 0
        self.name = table.name
        self.check, self.close = table.check, table.close

    @contextlib.contextmanager
    def read(self, since: str | None) -> Iterator[TableRead]:
        fails = self.failed < self._left
        self.failed += fails
        if fails and self.failed % 2:
            raise UnavailableError("the database is down")
        with self._table.read(since) as read:
            yield Halved(read) if fails else read


class Halved:
    """A read that breaks off after its first row."""

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self.reached = read.reached

    def chunks(self) -> Iterator[Sequence[tuple[object, ...]]]:
        for rows in self._read.chunks():
            yield rows[:1]
            raise UnavailableError("the connection is lost")
        raise UnavailableError("the connection is lost")
