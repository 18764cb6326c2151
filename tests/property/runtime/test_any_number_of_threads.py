"""However many threads read, and whatever holds each of them up, the same rows come in the same order."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.clock import SystemClock
from rowtide.plan.plan import Plan
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World

MOST_STREAMS = 4
END_MS = 10**6
"""Every partition has a last message so late that all before it come out."""


class Hindered(InMemoryTopic):
    """A topic whose readers are held up now and then, each by its own chance."""

    def __init__(self, name: str, partitions: int, seed: int) -> None:
        super().__init__(name, partitions, random.Random(seed))
        self._delays = random.Random(seed + 1)
        self.before = self._wait

    def _wait(self, step: str) -> None:
        if step == "poll":
            time.sleep(self._delays.choice((0, 0, 0.001, 0.004)))


def plan_of(streams: int) -> Plan:
    """Return so many streams as one union: its rows in order, and what a window and a join make of them."""
    names = [f"s{number}" for number in range(streams)]
    statements = ["CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');"]
    statements += ["CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');"]
    statements += [
        f"CREATE FOREIGN STREAM {name} (k VARCHAR(4), n INTEGER) SERVER k OPTIONS (topic '{name}');"
        for name in names
    ]
    union = " UNION ALL ".join(f"SELECT STREAM k, n FROM {name}" for name in names)
    return plan_pipeline(
        "\n".join(statements)
        + f"""
CREATE VIEW every_row AS {union};
CREATE FOREIGN TABLE log (at TIMESTAMP, k VARCHAR(4), n INTEGER) SERVER d;
CREATE FOREIGN TABLE sums (at TIMESTAMP, k VARCHAR(4), s BIGINT) SERVER d;
CREATE FOREIGN TABLE pairs (k VARCHAR(4), one INTEGER, other INTEGER) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO log SELECT STREAM ROWTIME AS at, k, n FROM every_row;
CREATE PUMP p2 STARTED AS INSERT INTO sums SELECT STREAM FLOOR(ROWTIME TO SECOND) AS at, k, SUM(n) AS s
  FROM every_row GROUP BY FLOOR(ROWTIME TO SECOND), k;
CREATE PUMP p3 STARTED AS INSERT INTO pairs SELECT STREAM a.k, a.n AS one, b.n AS other
  FROM every_row AS a JOIN s0 OVER (RANGE INTERVAL '1' SECOND PRECEDING) AS b ON a.k = b.k;
"""
    )


PLANS = {streams: plan_of(streams) for streams in range(1, MOST_STREAMS + 1)}


def given_by(
    plan: Plan, topics: Sequence[InMemoryTopic], *, threads: bool, seed: int
) -> Mapping[str, Sequence[object]]:
    """Read all topics to their ends; give the rows of each table in the order in which they were written."""
    world = World(topics[0], plan=plan)
    changes = {} if not threads else {"clock": SystemClock()}
    Service(
        world.context(
            sources={topic.topic.upper(): topic for topic in topics},
            pace=Pace(10**6, random.Random(seed).choice((7, 50, 10**6)), 60, None),
            threads=threads,
            queue_messages=20,
            max_held_rows=40,
            **changes,
        )
    ).run(until_end=True)
    return world.database.contents.appended


@settings(max_examples=12)
@given(
    streams=st.integers(1, MOST_STREAMS),
    partitions=st.integers(1, 3),
    seeds=st.lists(st.integers(0, 10**6), min_size=2, max_size=2),
    rows=st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 250)),
        min_size=5,
        max_size=120,
    ),
)
def test_any_number_of_reading_threads_gives_the_same_rows_in_the_same_order(
    streams: int, partitions: int, seeds: list[int], rows: list[tuple[int, int, str, int]]
) -> None:
    def topics(seed: int) -> list[Hindered]:
        made = [Hindered(f"s{number}", partitions, seed + number) for number in range(streams)]
        clocks = [[0] * partitions for _ in made]
        for number, (which, partition, key, later) in enumerate(rows):
            at, stream = partition % partitions, which % streams
            clocks[stream][at] += later
            value = b'{"k":"%s","n":%d}' % (key.encode(), number)
            made[stream].add(at, clocks[stream][at], value)
        for topic in made:
            for partition in range(partitions):
                topic.add(partition, END_MS, b'{"k":"end","n":0}')
        return made

    alone = given_by(PLANS[streams], topics(0), threads=False, seed=0)
    assert len(alone["LOG"]) >= len(rows)
    for seed in seeds:
        assert given_by(PLANS[streams], topics(seed), threads=True, seed=seed) == alone
