"""A running service whose table of a database is behind, or whose database is down, says so."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowtide.clock import SystemClock
from rowtide.runtime.crashpoints import NoCrash
from rowtide.runtime.inspect.why_not import SilenceExplanation
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from support.polled import PolledWorld
from support.waiting import wait_until


@contextmanager
def running(world: PolledWorld) -> Iterator[Service]:
    """Run the service with its threads and the machine's clock."""
    ends = threading.Event()
    with open_pipeline(world.plan, "p") as pipeline:
        service = Service(
            world.context(
                pipeline,
                NoCrash(),
                threads=True,
                clock=SystemClock(),
                stopping=ends.is_set,
                pace=Pace(100, 1_000, None, None),
            )
        )
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            yield service
        finally:
            ends.set()
            thread.join(60)


def causes(service: Service) -> list[tuple[str, str]]:
    found: SilenceExplanation = service.requests.why_not("NAMED")
    return [(each.cause, each.why) for each in found.causes]


def test_what_waits_for_a_table_is_said_and_continues_when_its_database_is_back(tmp_path: Path) -> None:
    world = PolledWorld(tmp_path, random.Random(1), "poll_interval '1 SECOND'")
    world.at_source("insert into people (id, name) values (1, 'ann')")
    with running(world) as service:
        wait_until(lambda: service.board.status().phase == "running")
        wait_until(lambda: world.sink("select 1 from users_now"))
        # Ahead of the clock: no poll has promised this time yet.
        world.click(time.time_ns() // 1_000_000 + 3_600_000)
        wait_until(lambda: [cause for cause, _ in causes(service)] == ["POLLED"])
        assert 'Table "people" (USERS) is waiting for its next poll' in causes(service)[0][1]

        (tmp_path / "crm.db").rename(tmp_path / "away.db")
        (tmp_path / "crm.db").mkdir()
        wait_until(lambda: service.board.status().waits_for == 'database of "USERS"')
        assert service.board.status().phase == "waiting"
        ((cause, why),) = causes(service)
        assert cause == "BROKER_DOWN"
        assert 'Table "people" (USERS) cannot be read: its database does not answer.' in why

        (tmp_path / "crm.db").rmdir()
        (tmp_path / "away.db").rename(tmp_path / "crm.db")
        world.at_source("insert into people (id, name) values (2, 'bob')")
        wait_until(lambda: len(world.sink("select 1 from users_now")) == 2)
        wait_until(lambda: service.board.status().phase == "running")
