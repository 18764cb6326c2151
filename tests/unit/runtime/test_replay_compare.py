"""``replay --compare`` finds every row that is not what the log says, and nothing else."""

import itertools
import random
import sqlite3
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.inspect.replay import Range, ReplayComparison, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.recovery.begin import parse_time
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import process_of

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount DOUBLE)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, mean DOUBLE,
  PRIMARY KEY (period, sensor)) SERVER d;
CREATE FOREIGN TABLE raw_log (at TIMESTAMP, sensor VARCHAR(8)) SERVER d;
{more}
CREATE PUMP p1 STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, COUNT(*) AS n, AVG(amount) AS mean
  FROM readings GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP p2 STARTED AS INSERT INTO raw_log SELECT STREAM ROWTIME AS at, sensor FROM readings;
"""
numbers = itertools.count()


class World:
    def __init__(self, folder: Path, more: str = "") -> None:
        self.file = folder / f"{next(numbers)}.db"
        self.plan = plan_pipeline(SQL.format(file=self.file, more=more))
        self.broker = memory_broker(str(self.file))
        self.broker.ensure_topic("readings", 2)
        rng = random.Random(1)
        for number in range(400):
            value = b'{"sensor":"s%d","amount":%f}' % (rng.randrange(3), rng.random())
            self.broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)

    def equipped(self, work: str) -> ReplayComparison | None:
        with open_pipeline(self.plan, "p") as pipeline:
            context = process_of(pipeline, Pace(0, 50, 300, None), poll_messages=20)
            if work == "run":
                Service(context).run(until_end=True)
                return None
            return compare(context, self.range)

    def run(self) -> None:
        self.equipped("run")

    range = Range()

    def compare(self, begin: int | None = None, end: int | None = None) -> ReplayComparison:
        self.range = Range(begin, end)
        found = self.equipped("compare")
        assert found is not None
        return found

    def change(self, statement: str) -> None:
        connection = sqlite3.connect(self.file)
        with connection:
            connection.execute(statement)
        connection.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.run()
    return made


def test_what_was_committed_is_what_the_log_says(world: World) -> None:
    found = world.compare()
    assert found.count == 0
    assert found.messages == 400
    assert found.rows["RAW_LOG"] > 390
    assert found.positions == {("READINGS", 0): 200, ("READINGS", 1): 200}


def test_a_changed_row_is_named_with_both_values_and_the_offsets_behind_it(world: World) -> None:
    world.change("update minutes set n = n + 1 where sensor = 's1' and period like '1970-01-01 00:02%'")
    found = world.compare()
    assert found.count == 1
    (difference,) = found.differences
    assert difference.table == "MINUTES"
    assert difference.committed is not None
    assert difference.recomputed is not None
    assert difference.committed[2] == difference.recomputed[2] + 1  # type: ignore[operator]
    assert difference.recomputed[:2] == (120_000, "s1")
    # The group closed with the first rows of minute 3: messages 180 and on, of both partitions.
    for first, last in difference.offsets.values():
        assert first <= 180_000 // 2_000 + 1 <= last + 10


def test_rows_too_many_and_rows_missing_are_found_in_a_table_without_key(world: World) -> None:
    world.change("delete from raw_log where rowid = 7")
    world.change("insert into raw_log select * from raw_log where rowid = 9")
    found = world.compare()
    kinds = [(each.committed is None, each.recomputed is None) for each in found.differences]
    assert sorted(kinds) == [(False, True), (True, False)]


def test_a_range_compares_only_what_lies_in_it(world: World) -> None:
    world.change("update minutes set n = 0 where period like '1970-01-01 00:01%'")
    assert world.compare().count == 3
    assert world.compare(begin=120_000).count == 0
    assert world.compare(end=60_000).count == 0
    assert world.compare(begin=60_000, end=60_001).count == 3


def test_the_newest_snapshot_serves_where_the_log_has_aged_out(world: World) -> None:
    world.broker.truncate("readings", 90, partition=0)
    with pytest.raises(StatementError, match="the stored snapshot covers rows from") as refused:
        world.compare()
    since = parse_time(str(refused.value.hint).split('"')[1])
    assert world.compare(begin=since).count == 0
    world.change("update raw_log set sensor = 'x' where at like '1970-01-01 00:06:2%'")
    assert world.compare(begin=since).count > 0


def test_a_log_that_has_aged_out_behind_every_snapshot_is_refused_by_name(world: World) -> None:
    world.broker.truncate("readings", 200, partition=0)
    with pytest.raises(StatementError, match='topic "readings" partition 0 no longer holds offsets'):
        world.compare(begin=10**9)


def test_a_table_without_a_column_of_time_is_not_compared_by_time(tmp_path: Path) -> None:
    more = """
    CREATE FOREIGN TABLE sensors (sensor VARCHAR(8)) SERVER d;
    CREATE PUMP p3 STARTED AS INSERT INTO sensors SELECT STREAM sensor FROM readings;
    """
    world = World(tmp_path, more)
    world.run()
    assert world.compare().count == 0
    with pytest.raises(StatementError, match='table "SENSORS" has no column that ROWTIME feeds'):
        world.compare(begin=0)


def test_nothing_committed_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="has committed nothing"):
        World(tmp_path).compare()
