"""From a compacted topic every commit carries the state: the same messages are not found again."""

import random
import sqlite3
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.growing import DiesAnywhere
from support.pipeline import process_of
from support.seeds import seeds

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number BIGINT, sensor VARCHAR(8))
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, last BIGINT) SERVER d;
CREATE FOREIGN TABLE raw_log (number BIGINT) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), sensor, COUNT(*), LAST_VALUE(number)
  FROM readings GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP p2 STARTED AS INSERT INTO raw_log SELECT STREAM number FROM readings;
"""


class World:
    def __init__(self, folder: Path, *, compacts: bool) -> None:
        self.file = folder / f"{compacts}.db"
        self.plan = plan_pipeline(SQL.format(file=self.file))
        self.broker = memory_broker(str(self.file))
        self.broker.ensure_topic("readings", 2)
        self.compacts = compacts
        self.number = 0
        if compacts:
            self.broker.compacted.add("readings")

    def produce(self, rng: random.Random) -> None:
        for _ in range(30):
            self.number += 1
            key = b"s%d" % rng.randrange(3)
            value = b'{"number":%d,"sensor":"%s"}' % (self.number, key)
            partition = rng.randrange(2)
            at = 3_000 * self.number
            self.broker.produce("readings", [value], timestamps=[at], partition=partition, keys=[key])

    def compact(self) -> None:
        if self.compacts:
            for partition in range(2):
                self.broker.compact("readings", partition=partition)

    def run(self, crash_points: CrashPoints) -> None:
        with open_pipeline(self.plan, "p") as pipeline:
            context = process_of(
                pipeline, Pace(0, 10, None, None), crash_points=crash_points, poll_messages=7
            )
            Service(context).run(until_end=True)

    def compare(self) -> None:
        with open_pipeline(self.plan, "p") as pipeline:
            context = process_of(pipeline, Pace(0, 10, None, None))
            compare(context, Range())

    def rows(self, table: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            return connection.execute(f"select * from {table}").fetchall()
        finally:
            connection.close()


@pytest.mark.parametrize("seed", seeds(3, few=1))
def test_what_was_read_before_it_was_compacted_is_not_missed(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    straight, world = World(tmp_path, compacts=False), World(tmp_path, compacts=True)
    died = 0
    for _ in range(15):
        state = rng.getstate()
        straight.produce(rng)
        rng.setstate(state)
        world.produce(rng)
        straight.run(NoCrash())
        while True:
            try:
                world.run(DiesAnywhere(rng))
                break
            except SimulatedCrash:
                died += 1
        world.compact()
    assert died
    for table in ("minutes", "raw_log"):
        assert world.rows(table) == straight.rows(table)
    assert len(world.rows("minutes")) > 20
    accounts = world.rows("rowtide_accounts")
    wanted = straight.rows("rowtide_accounts")
    assert [row[:-1] for row in accounts] == [row[:-1] for row in wanted]
    (source,) = [row for row in accounts if row[1] == "SOURCE"]
    assert source[3] == 15 * 30


def test_a_compacted_topic_is_not_compared_and_not_replayed(tmp_path: Path) -> None:
    world = World(tmp_path, compacts=True)
    world.produce(random.Random(1))
    world.run(NoCrash())
    with pytest.raises(StatementError, match='topic "readings" is compacted'):
        world.compare()
    with open_pipeline(world.plan, "p") as pipeline:
        pipeline.ledger.drop_snapshots()
    with pytest.raises(StatementError, match="is compacted and cannot be read again from offset 0"):
        world.run(NoCrash())


def test_max_ahead_of_the_configuration_counts(tmp_path: Path) -> None:
    from rowtide.config.reading import load_settings
    from rowtide.plan.nodes import Promote, nodes_below
    from rowtide.runtime.configured import configured

    sql = """
    CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
    CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
    CREATE FOREIGN STREAM readings (at TIMESTAMP, n INTEGER) SERVER k OPTIONS (topic 'r', max_ahead '2 HOUR');
    CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, n FROM readings;
    CREATE FOREIGN TABLE t (at TIMESTAMP) SERVER d;
    CREATE PUMP p STARTED AS INSERT INTO t SELECT STREAM ROWTIME AS at FROM timed;
    """
    plan = plan_pipeline(sql)

    def ahead(text: str | None) -> set[int | None]:
        config = tmp_path / "config.toml"
        config.write_text("" if text is None else f'[streams.readings]\nmax_ahead = "{text}"\n')
        counted = configured(plan, load_settings(config))
        nodes = [*(node for _, node in counted.relations), *(pump.node for pump in counted.pumps)]
        below = [each for node in nodes for each in nodes_below(node)]
        return {each.max_ahead_ms for each in below if isinstance(each, Promote)}

    assert ahead(None) == {7_200_000}
    assert ahead("30 MINUTE") == {1_800_000}
    with pytest.raises(StatementError, match='option "max_ahead" of foreign stream "READINGS"'):
        ahead("soon")
