"""Exactly once on real Kafka and PostgreSQL: SIGKILL at random moments, and nothing lost or doubled."""

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from real.kafka import Broker
from support.service import (
    Reading,
    Sample,
    Service,
    assert_equal,
    config_for,
    positions_in,
    recomputed,
    sample,
    service,
)
from support.waiting import wait_until

PARTITIONS = 4
MESSAGES = 60_000
ON_ONE_MILLISECOND = 1_000
KILLS = 12
"""In the long run; each run of the tests has fewer, and ends after the messages of one millisecond."""
FEW_KILLS = 5
HALF = 9_000
SNAPSHOT_ROWS = 3_000
MARIADB_KILLS = 6
FEW = 5_000
"""Messages of a partition in the test on MariaDB, which is in the long run only."""

SNAPSHOTS = {
    "with a snapshot every 3,000 rows": {"snapshot_rows": SNAPSHOT_ROWS, "snapshot_interval_s": 0},
    "without snapshots": {"snapshot_rows": 0, "snapshot_interval_s": 0},
}


def readings(rng: random.Random) -> list[list[Reading]]:
    """Return the logs: 5 % out of order, some beyond WITHIN; 1,000 on one millisecond; a few bad ones."""
    logs: list[list[Reading]] = [[] for _ in range(PARTITIONS)]
    clock = 1_700_000_000_000
    crowd_at = MESSAGES // 2
    for number in range(MESSAGES):
        if not crowd_at <= number < crowd_at + ON_ONE_MILLISECOND:
            clock += rng.choice((0, 1, 2, 5))
        timestamp = clock
        if rng.random() < 0.05:
            timestamp -= rng.randrange(1, 2_600)
        bad = rng.random() < 0.000_5
        reading = Reading(timestamp, None if bad else number, f"s{rng.randrange(500)}", rng.randrange(10**6))
        logs[rng.randrange(PARTITIONS)].append(reading)
    return logs


class Feed:
    """Appends the logs to the topic piece by piece."""

    def __init__(self, broker: Broker, topic: str, logs: list[list[Reading]]) -> None:
        self._broker = broker
        self._topic = topic
        self._logs = logs
        self._sent = [0] * len(logs)

    def send(self, share: float) -> None:
        """Append up to this share of all."""
        for partition, log in enumerate(self._logs):
            start, stop = self._sent[partition], int(len(log) * share)
            if stop > start:
                self._broker.produce(
                    self._topic,
                    [each.value() for each in log[start:stop]],
                    partition=partition,
                    timestamps=[each.timestamp for each in log[start:stop]],
                )
                self._sent[partition] = stop


@pytest.fixture(scope="module")
def logs() -> list[list[Reading]]:
    return readings(random.Random(20))


@pytest.fixture
def killed_service(
    kafka: Broker, postgres_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Service, str]]:
    topic = kafka.create_topic(PARTITIONS)
    config = config_for(
        kafka.bootstrap_servers,
        topic,
        postgres_url,
        commit={"interval_ms": 20, "max_rows": 1_000},
        checkpoint=SNAPSHOTS[request.param],
    )
    with service(tmp_path, config) as made:
        yield made, topic


def moved_on(url: str, before: dict[int, int] | None, made: Service) -> Sample:
    """Wait until other positions are committed than ``before``, however slow the machine is."""

    def has_moved() -> bool:
        now = positions_in(url)
        return now is not None and any(now.values()) and now != before

    wait_until(has_moved, lambda: made.log.read_text()[-3_000:])
    found = sample(url)
    assert found is not None
    return found


def killed_while_it_works(made: Service, feed: Feed, url: str, kills: int) -> list[Sample | None]:
    """Feed and kill the service again and again; return what the database held in between."""
    rng = random.Random(1)
    feed.send(0.02)
    samples = []
    for kill in range(kills):
        process = made.start()
        # Half of the deaths come while it works, the others at any moment of a start or recovery.
        if kill % 2:
            made.wait_for_log("running", times=made.log.read_text().count('"event": "running"') + 1)
            before = positions_in(url)
            for slice_ in range(rng.randrange(2, 6)):
                feed.send((kill - 1 + slice_ * 0.5) / (kills + 1))
                time.sleep(rng.random() * 0.3)
                samples.append(sample(url))
            samples.append(moved_on(url, before, made))
            time.sleep(rng.random() * 0.2)
        else:
            time.sleep(0.5 + rng.random() * 2.0)
            samples.append(sample(url))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]
        samples.append(sample(url))
    return samples


def assert_each_equal(samples: Sequence[Sample | None], logs: list[list[Reading]]) -> int:
    """Compare each sample with a batch recomputation; return the number of different positions."""
    seen = {tuple(sorted(each.positions.items())): each for each in samples if each is not None}
    for each in seen.values():
        assert_equal(each, recomputed(logs, each.positions))
    return len(seen)


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("killed_service", "kills", "length"),
    [
        pytest.param("with a snapshot every 3,000 rows", FEW_KILLS, HALF, id="few kills"),
        *(pytest.param(each, KILLS, MESSAGES, marks=pytest.mark.long, id=each) for each in SNAPSHOTS),
    ],
    indirect=["killed_service"],
)
def test_tables_equal_a_batch_recomputation_at_every_moment(
    killed_service: tuple[Service, str],
    kafka: Broker,
    postgres_url: str,
    logs: list[list[Reading]],
    kills: int,
    length: int,
) -> None:
    made, topic = killed_service
    logs = [log[:length] for log in logs]
    feed = Feed(kafka, topic, logs)
    samples = killed_while_it_works(made, feed, postgres_url, kills)
    feed.send(1.0)
    made.finish()
    last = sample(postgres_url)
    assert last is not None
    assert last.positions == {partition: len(log) for partition, log in enumerate(logs)}
    assert {kind for kind, *_ in last.errors} == {"LATE", "REJECTED"}
    assert last.errors.total() > 100
    recovered = [json.loads(line) for line in made.log.read_text().splitlines() if '"recovered"' in line]
    assert any(each["replayed_messages"] for each in recovered)
    assert any(each["snapshot"] for each in recovered) == (f"snapshot_rows = {SNAPSHOT_ROWS}" in made.config)
    assert assert_each_equal([*samples, last], logs) > kills // 2


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.mariadb
@pytest.mark.timeout(600)
def test_tables_on_mariadb_equal_a_batch_recomputation_at_every_moment(
    kafka: Broker, mariadb_url: str, tmp_path: Path, logs: list[list[Reading]]
) -> None:
    few = [log[:FEW] for log in logs]
    topic = kafka.create_topic(PARTITIONS)
    config = config_for(
        kafka.bootstrap_servers,
        topic,
        mariadb_url,
        commit={"interval_ms": 20, "max_rows": 1_000},
        checkpoint={"snapshot_rows": 2_000, "snapshot_interval_s": 0},
    )
    with service(tmp_path, config) as made:
        feed = Feed(kafka, topic, few)
        samples = killed_while_it_works(made, feed, mariadb_url, MARIADB_KILLS)
        feed.send(1.0)
        made.finish()
        last = sample(mariadb_url)
        recovered = [json.loads(line) for line in made.log.read_text().splitlines() if '"recovered"' in line]
    assert last is not None
    assert last.positions == {partition: len(log) for partition, log in enumerate(few)}
    assert {kind for kind, *_ in last.errors} >= {"LATE"}
    assert any(each["snapshot"] for each in recovered)
    assert assert_each_equal([*samples, last], few) > MARIADB_KILLS // 2


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed_service", ["without snapshots"], indirect=True)
def test_a_zombie_commits_nothing(
    killed_service: tuple[Service, str], kafka: Broker, postgres_url: str, logs: list[list[Reading]]
) -> None:
    made, topic = killed_service
    feed = Feed(kafka, topic, logs)
    feed.send(0.1)
    zombie = made.start()
    made.wait_for_log("running")
    zombie.send_signal(signal.SIGSTOP)
    feed.send(0.2)
    made.finish()
    finished = sample(postgres_url)
    assert finished is not None
    feed.send(0.25)
    zombie.send_signal(signal.SIGCONT)
    assert zombie.wait(60) == 3
    assert "was taken by" in made.log.read_text()
    after = sample(postgres_url)
    assert after == finished
    assert_equal(finished, recomputed(logs, finished.positions))
    made.finish()
    last = sample(postgres_url)
    assert last is not None
    assert_equal(last, recomputed(logs, last.positions))
    assert sum(last.positions.values()) == sum(int(len(log) * 0.25) for log in logs)


def wait_until_committed(url: str, messages: int, process: subprocess.Popen[bytes]) -> None:
    def are_committed() -> bool:
        assert process.poll() is None
        return sum((positions_in(url) or {}).values()) >= messages

    wait_until(are_committed)


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed_service", ["without snapshots"], indirect=True)
def test_sigterm_finishes_the_commit_within_ten_seconds(
    killed_service: tuple[Service, str], kafka: Broker, postgres_url: str, logs: list[list[Reading]]
) -> None:
    made, topic = killed_service
    Feed(kafka, topic, logs).send(0.3)
    process = made.start()
    wait_until_committed(postgres_url, 1, process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0
    assert time.monotonic() - began < 10
    seen = sample(postgres_url)
    assert seen is not None
    assert_equal(seen, recomputed(logs, seen.positions))
    assert '"event": "stopped"' in made.log.read_text()
