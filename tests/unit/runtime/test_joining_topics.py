"""Topics that match a pattern and come later: they join behind the stream's bound, once and for all."""

import random
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from rowtide.runtime.crashpoints import NoCrash, SimulatedCrash
from support.growing import SQL, DiesAnywhere, Growing, Until
from support.seeds import seeds

PATTERN_SQL = SQL.replace("topic 'readings', partitions '2'", "topic_pattern 'readings.*'")


class GrowingTopics(Growing):
    """The topics of ``readings`` become more, and some of them get partitions."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng, sql=PATTERN_SQL)
        self.places = [("readings", 0), ("readings", 1)]

    def produce(self) -> None:
        for number in range(self.rng.randrange(10, 30)):
            self.clock += self.rng.choice((0, 0, 200, 1_500))
            at = self.clock - self.rng.choice(self.jitter)
            value = b'{"number":%d,"at":%d,"sensor":"s%d"}' % (self.messages, at, number % 3)
            self.messages += 1
            topic, partition = self.rng.choice(self.places)
            if self.rng.random() < 0.3:
                topic, partition = "others", 0
            self.broker.produce(topic, [value], timestamps=[self.clock], partition=partition)

    def grow(self) -> None:
        topic, old = self.rng.choice(self.places)[0], self.rng.random() < 0.4
        if old:
            count = len([each for each, _ in self.places if each == topic])
            self.broker.add_partitions(topic, count + 1)
            self.places.append((topic, count))
        else:
            # Names come in no order.
            name = f"readings-{self.rng.randrange(10**9)}"
            self.broker.create_topic(name, 2)
            self.places += [(name, 0), (name, 1)]


@pytest.mark.parametrize("seed", seeds(3, few=1))
def test_joining_again_and_again_while_dying_anywhere_gives_what_a_replay_gives(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    world = GrowingTopics(tmp_path, rng)
    died = 0
    for step in range(16):
        world.produce()
        if rng.random() < 0.1:
            world.grow()
        until = Until(world, rng.choice((0.5, 12.0)), rng.choice((None, None, 2.0, 4.0)))
        try:
            world.run(NoCrash() if step == 0 else DiesAnywhere(rng), until, until.clock)
        except SimulatedCrash:
            died += 1
    until = Until(world, 2.0)
    world.run(NoCrash(), until, until.clock)
    assert died
    assert len({topic for topic, _ in world.places}) > 2
    assert world.compare().count == 0
    engine = sa.create_engine(f"sqlite:///{world.file}")
    with engine.connect() as connection:
        query = "select topic, topic_id from rowtide_positions where relation = 'READINGS'"
        committed = [tuple(row) for row in connection.execute(sa.text(query))]
        late = connection.execute(sa.text("select count(*) from rowtide_errors where relation = 'DIRECT'"))
        written = connection.execute(sa.text("select count(*), count(distinct number) from direct"))
        assert late.scalar_one() == 0
        rows, distinct = written.one()
    engine.dispose()
    assert rows == distinct
    assert sorted(topic for topic, _ in committed) == sorted(topic for topic, _ in world.places)
    assert all(topic_id == str(world.broker.made[topic]) for topic, topic_id in committed)


def test_a_topic_that_comes_while_the_service_runs_joins_within_seconds(tmp_path: Path) -> None:
    world = GrowingTopics(tmp_path, random.Random(1))
    world.produce()
    grown: list[float] = []

    class Grows(Until):
        def __call__(self) -> bool:
            if self.clock.seconds > 4 and not grown:
                grown.append(self.clock.seconds)
                world.broker.create_topic("readings-new", 2)
            return super().__call__()

    until = Grows(world, 20.0)
    with capture_logs() as logs:
        world.run(NoCrash(), until, until.clock)
    joins = [(log["topic"], log["partition"]) for log in logs if log["event"] == "partition_joins"]
    assert joins == [("readings-new", 0), ("readings-new", 1)]
