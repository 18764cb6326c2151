"""A small pipeline with relations of every kind, and its progress after a run."""

from __future__ import annotations

import random
from typing import Any

from rowtide.plan.plan import Plan
from rowtide.runtime.pace import Pace
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, fill

READINGS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b', password 'hidden');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///nowhere.db');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8) NOT NULL, amount BIGINT) SERVER k
  OPTIONS (topic 'readings', format 'JSON', some_password 'hidden');
CREATE VIEW same AS SELECT STREAM * FROM readings;
CREATE VIEW great AS SELECT STREAM sensor, amount FROM same WHERE amount > 10;
CREATE STREAM found (sensor VARCHAR(8), amount BIGINT);
CREATE PUMP finds STARTED AS INSERT INTO found SELECT STREAM sensor, amount FROM great;
CREATE TABLE latest (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor));
CREATE PUMP keeps STARTED AS INSERT INTO latest SELECT STREAM sensor, amount FROM found;
CREATE FOREIGN TABLE minutes (minute_begin TIMESTAMP, sensor VARCHAR(8), n BIGINT, PRIMARY KEY (minute_begin, sensor))
  SERVER d;
CREATE VIEW per_minute AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS minute_begin, sensor, COUNT(*) AS n FROM found
  GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP counts STARTED AS INSERT INTO minutes SELECT STREAM minute_begin, sensor, n FROM per_minute;
CREATE VIEW unread AS SELECT STREAM sensor FROM found;
"""


def ran(
    seed: int = 1,
    messages: int = 200,
    partitions: int = 2,
    pace: Pace | None = None,
    plan: Plan | None = None,
    **changes: Any,
) -> tuple[World, ProgressBoard]:
    """Run the pipeline over drawn messages to their end; ``changes`` are of its context."""
    plan = plan or plan_pipeline(READINGS)
    world = World(InMemoryTopic("readings", partitions), plan=plan)
    fill(world.topic, random.Random(seed), messages)
    service = Service(world.context(pace=pace or Pace(100, 60, None, None), **changes))
    service.run(until_end=True)
    return world, service.progress
