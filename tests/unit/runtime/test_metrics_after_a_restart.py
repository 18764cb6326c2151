"""A restart without new rows shows every metric of a position, as the database has it."""

import random

from rowtide.metrics import Metrics
from rowtide.runtime.live.observing import MetricsObserver
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, fill


def test_a_restart_without_new_rows_shows_positions_lag_bounds_and_the_last_commit() -> None:
    world = World(InMemoryTopic("readings", 2))
    fill(world.topic, random.Random(1), 60)

    def run() -> tuple[Metrics, Service]:
        metrics = Metrics()
        service = Service(world.context(observer=MetricsObserver(metrics, world.clock, "1")))
        service.run(until_end=True)
        return metrics, service

    first, served = run()
    record = world.checkpoint.record
    assert record is not None
    assert record.commits > 1
    assert served.board.status().commits == record.commits
    committed_ms = 1_700_000_000_000
    world.checkpoint.record = type(record)(
        record.epoch, record.holder, record.commits, record.digest, record.partition_positions, committed_ms
    )
    second, service = run()
    assert service.board.status().last_commit_ms == committed_ms
    assert service.board.status().commits == record.commits
    assert second.registry.get_sample_value("rowtide_last_commit_timestamp_seconds") == committed_ms / 1000
    per_partition = ("rowtide_position", "rowtide_lag_offsets", "rowtide_end_offset")
    for position in record.partition_positions:
        labels = {"topic": "readings", "partition": str(position.partition)}
        for name in per_partition:
            expected = first.registry.get_sample_value(name, labels)
            assert expected is not None
            assert second.registry.get_sample_value(name, labels) == expected
        assert second.registry.get_sample_value("rowtide_messages_read_total", labels) == 0
        bound = {"relation": "READINGS", **labels}
        assert position.bound is not None
        shown = second.registry.get_sample_value("rowtide_partition_bound_timestamp_seconds", bound)
        assert shown == position.bound / 1000
    for relation in ("MINUTES", "LATEST", "LOG"):
        assert first.registry.get_sample_value("rowtide_rows_done_total", {"relation": relation}) != 0
        assert second.registry.get_sample_value("rowtide_rows_done_total", {"relation": relation}) == 0


def test_lag_grows_with_the_log_without_a_commit() -> None:
    world = World(InMemoryTopic("readings", 2))
    fill(world.topic, random.Random(1), 60)
    metrics = Metrics()
    observer = MetricsObserver(metrics, world.clock, "1")
    Service(world.context(observer=observer)).run(until_end=True)
    end = world.topic.partitions[0].end
    observer.looked_up({"READINGS": "readings"}, {("READINGS", 0): end + 5})
    labels = {"topic": "readings", "partition": "0"}
    assert metrics.registry.get_sample_value("rowtide_lag_offsets", labels) == 5
