"""The broker and the database of end-to-end benchmarks, which the environment names."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rowtide.errors import StatementError

if TYPE_CHECKING:
    import sqlalchemy as sa
    from confluent_kafka import Producer

    from rowtide.clock import Clock
    from rowtide.runtime.pace import Pace
    from rowtide.runtime.pipeline import Pipeline
    from rowtide.runtime.service import Service
    from rowtide.runtime.state.observer import Observer

BROKER, DATABASE = "ROWTIDE_BENCH_BROKER", "ROWTIDE_BENCH_DATABASE"


def given(name: str) -> str:
    """Return the address of a server.

    Raises:
      StatementError: it is not set.
    """
    value = os.environ.get(name)
    if not value:
        raise StatementError(
            f"{name} is not set",
            hint=f"Set a broker in {BROKER} (host:port) and a PostgreSQL database in {DATABASE} "
            "(postgresql+psycopg://..); benchmarks/with_servers.py starts both.",
        )
    return value


def service_of(
    pipeline: Pipeline, clock: Clock, pace: Pace, stopping: Callable[[], bool], observer: Observer
) -> Service:
    """Return a service on a pipeline that does not wait for servers."""
    from rowtide.runtime.service import Service
    from rowtide.runtime.state.context import PipelineContext

    return Service(
        PipelineContext(
            name=pipeline.name,
            plan=pipeline.plan,
            sources=pipeline.sources,
            database=pipeline.database,
            ledger=pipeline.ledger,
            clock=clock,
            pace=pace,
            stopping=stopping,
            rng=random.Random(0),
            wait=False,
            observer=observer,
        )
    )


def create_topic(broker: str, topic: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create a topic that keeps its messages."""
    from confluent_kafka.admin import AdminClient, NewTopic

    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **config})
    admin = AdminClient({"bootstrap.servers": broker})
    for created in admin.create_topics([new]).values():
        created.result(30)


def send(producer: Producer, topic: str, value: bytes | None, partition: int, **more: object) -> None:
    """Let a producer send a message, once its queue has room for it."""
    while True:
        try:
            producer.produce(topic, value, partition=partition, **more)  # type: ignore[arg-type]
            return
        except BufferError:
            producer.poll(0.1)


def flushed(producer: Producer) -> None:
    """Wait until the broker has accepted all messages.

    Raises:
      StatementError: it has not within a minute.
    """
    if left := producer.flush(60):
        raise StatementError(f"the broker did not take {left} messages")


def committed_messages(connection: sa.Connection, pipeline: str) -> int:
    """Return the number of committed messages."""
    import sqlalchemy as sa

    text = "SELECT sum(next_offset) FROM rowtide.positions WHERE pipeline = :pipeline"
    try:
        return int(connection.execute(sa.text(text), {"pipeline": pipeline}).scalar() or 0)
    except sa.exc.ProgrammingError:
        # The service has not created its tables yet.
        return 0
