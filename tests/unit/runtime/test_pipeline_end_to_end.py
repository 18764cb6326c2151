"""A pipeline from its SQL, over the in-process broker, into SQLite: everything of ours but the network."""

import itertools
import random
import sqlite3
import uuid
from pathlib import Path

import pytest

from rowtide.config.settings import Settings
from rowtide.errors import StatementError, SupersededError
from rowtide.runtime.configured import configured
from rowtide.runtime.crashpoints import POINTS, CrashAt, CrashPoints, SimulatedCrash, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import work_off

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{database}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8) NOT NULL, amount DECIMAL(12, 2), at TIMESTAMP)
  SERVER k OPTIONS (topic 'readings', partitions '3', format 'JSON', max_ahead '1 HOUR');
CREATE VIEW timed AS
  SELECT STREAM at AS ROWTIME, sensor, amount FROM readings ORDER BY at WITHIN INTERVAL '2' SECOND;
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, total DECIMAL(38, 2),
  PRIMARY KEY (period, sensor)) SERVER d;
CREATE FOREIGN TABLE raw_log (at TIMESTAMP, sensor VARCHAR(8), amount DECIMAL(12, 2)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, COUNT(*) AS n, SUM(amount) AS total
  FROM timed GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP p2 STARTED AS INSERT INTO raw_log SELECT STREAM ROWTIME, sensor, amount FROM timed;
"""


BAD = (b"{", b'{"sensor":1}', b'{"sensor":"s","at":99999999999}', b'{"amount":1}')


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self.file = folder / f"{seed}-{uuid.uuid4().hex}.db"
        self.broker_name = str(self.file)
        self.broker = memory_broker(self.broker_name)
        self.broker.ensure_topic("readings", 3)
        self.plan = plan_pipeline(SQL.format(broker=self.broker_name, database=self.file))
        rng = random.Random(seed)
        clock, bad = 60_000, itertools.count()
        for number in range(300):
            clock += rng.choice((0, 0, 100, 1_200))
            at = clock - rng.choice((0, 0, 0, 1_500, 2_600))
            value = b'{"sensor":"s%d","amount":%d.25,"at":%d}' % (rng.randrange(4), number, at)
            draw = rng.random()
            if draw < 0.06:
                value = BAD[next(bad) % len(BAD)]
            partition = rng.randrange(3)
            self.broker.produce("readings", [value], timestamps=[clock], partition=partition)
            if draw > 0.97:
                self.broker.hole("readings", partition=partition)

    def run(self, pace: Pace, crash_points: CrashPoints | None = None) -> None:
        work_off(self.plan, "p", pace, crash_points)

    def query(self, text: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            return connection.execute(text).fetchall()
        finally:
            connection.close()

    def state(self) -> list[list[tuple[object, ...]]]:
        return [
            self.query("select * from minutes order by period, sensor"),
            self.query("select * from raw_log order by rowid"),
            self.query(
                "select kind, relation, reason, topic, partition, message_offset, rowtime, bound, raw,"
                " row_json from rowtide_errors order by partition, message_offset, relation"
            ),
            self.query(
                "select relation, topic, partition, next_offset, bound, start_offset from rowtide_positions"
                " order by partition"
            ),
        ]


ONE_COMMIT = Pace(10**9, 10**9, None, None)


def test_what_comes_out_is_what_went_in(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.run(ONE_COMMIT)
    minutes, log, errors, positions = world.state()
    assert minutes
    assert log
    reasons = {str(row[2]).split(":")[0] for row in errors}
    assert reasons == {"DECODE", "MISSING_FIELD", "TYPE", "LATE", "FUTURE"}
    assert sum(row[3] for row in positions) > 300  # type: ignore[misc]
    late = [row for row in errors if row[0] == "LATE"]
    assert all(row[8] is not None and row[6] < row[7] for row in late)  # type: ignore[operator]


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_any_point_of_the_real_checkpoint_changes_nothing(tmp_path: Path, point: str) -> None:
    straight = World(tmp_path, 2)
    straight.run(ONE_COMMIT)
    world = World(tmp_path, 2)
    pace = Pace(0, 40, 80, None)
    for attempt in range(5):
        crash = (
            CrashAt("commit.after_commit", 3, raise_crash)
            if attempt == 0
            else CrashAt(point, attempt, raise_crash)
        )
        try:
            world.run(pace, crash)
        except SimulatedCrash:
            continue
    world.run(pace)
    assert world.state() == straight.state()


def test_a_process_that_was_superseded_commits_nothing_more(tmp_path: Path) -> None:
    straight = World(tmp_path, 3)
    straight.run(ONE_COMMIT)
    world = World(tmp_path, 3)

    class TakeOver:
        done = False

        def reach(self, point: str) -> None:
            if (
                point == "commit.before_begin"
                and not self.done
                and world.query("select commits from rowtide_pipelines where commits > 2")
            ):
                self.done = True
                world.run(ONE_COMMIT)

    with pytest.raises(SupersededError, match=r'pipeline "p" was taken by .* epoch 2, ours is 1'):
        world.run(Pace(0, 20, None, None), TakeOver())
    assert world.state() == straight.state()


def test_tables_that_configuration_puts_in_two_databases_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    text = SQL.format(broker="b", database=tmp_path / "a.db") + (
        f"CREATE SERVER e FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');\n"
        "CREATE FOREIGN TABLE other (a INTEGER) SERVER e;\n"
    )
    plan = plan_pipeline(text)
    with open_pipeline(plan, "p"):
        pass
    settings = Settings(servers={"E": {"url": f"sqlite:///{tmp_path}/b.db"}})
    with (
        pytest.raises(StatementError, match='two databases, those of server "D" and of server "E"'),
        open_pipeline(configured(plan, settings), "p"),
    ):
        pass
