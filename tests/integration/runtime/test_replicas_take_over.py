"""Two replicas on real Kafka and PostgreSQL: the leader is killed or suspended, and the other one takes over."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

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
TAKEOVER_MS = 1_500


def readings(messages: int, rng: random.Random) -> list[list[Reading]]:
    """Return the logs: rows out of order, late ones and bad ones."""
    logs: list[list[Reading]] = [[] for _ in range(PARTITIONS)]
    clock = 1_700_000_000_000
    for number in range(messages):
        clock += rng.choice((0, 1, 2, 5, 20))
        timestamp = clock - (rng.randrange(1, 2_600) if rng.random() < 0.05 else 0)
        bad = rng.random() < 0.002
        reading = Reading(timestamp, None if bad else number, f"s{rng.randrange(50)}", rng.randrange(10**6))
        logs[rng.randrange(PARTITIONS)].append(reading)
    return logs


class Pair:
    """Two replicas, and the logs that they read piece by piece."""

    def __init__(
        self, made: Service, broker: Broker, topic: str, url: str, logs: list[list[Reading]]
    ) -> None:
        self.made = made
        self.samples: list[Sample] = []
        self._logs = logs
        self._broker, self._topic = broker, topic
        self._sent = [0] * len(logs)
        self._engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
        )
        self._url = url

    def start(self) -> None:
        """Start one more replica."""
        self.made.start("--standby")

    def send(self, share: float) -> None:
        """Append up to this share of all messages."""
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

    def record(self) -> tuple[int, int, int]:
        """Return epoch, commits and the process that leads; zeros before there is one."""
        with self._engine.connect() as connection:
            try:
                row = connection.execute(
                    sa.text("select epoch, commits, holder from rowtide.pipelines")
                ).one()
            except (sa.exc.ProgrammingError, sa.exc.NoResultFound):
                return 0, 0, 0
        return row.epoch, row.commits, int(row.holder.rpartition(" ")[2])

    def leader(self) -> subprocess.Popen[bytes]:
        """Return the process that leads."""
        _, _, number = self.record()
        return next(each for each in self.made.processes if each.pid == number)

    def wait_for_commit(self, epoch: int, commits: int) -> None:
        """Wait for a commit after so many, under this epoch or a later one, and compare the tables."""
        wait_until(
            lambda: self.record()[0] >= epoch and self.record()[1] > commits,
            lambda: self.made.log.read_text()[-4_000:],
        )
        self.look()

    def look(self) -> None:
        """Compare the tables with a batch recomputation at the committed positions."""
        found = sample(self._url)
        assert found is not None
        self.samples.append(found)
        assert_equal(found, recomputed(self._logs, found.positions))

    def wait_until_all_is_committed(self) -> None:
        """Wait until everything that was sent is committed."""
        sent = dict(enumerate(self._sent))
        wait_until(lambda: positions_in(self._url) == sent, lambda: self.made.log.read_text()[-4_000:])
        self.look()

    def events(self, name: str) -> list[dict[str, object]]:
        """Return the log lines of an event."""
        lines = self.made.log.read_text().splitlines()
        return [json.loads(line) for line in lines if f'"event": "{name}"' in line]


@contextmanager
def pair_of(kafka: Broker, url: str, folder: Path, logs: list[list[Reading]]) -> Iterator[Pair]:
    topic = kafka.create_topic(PARTITIONS)
    config = config_for(
        kafka.bootstrap_servers,
        topic,
        url,
        commit={"interval_ms": 100, "max_rows": 1_000},
        checkpoint={"snapshot_rows": 5_000, "snapshot_interval_s": 0},
        standby={"takeover_ms": TAKEOVER_MS},
    )
    with service(folder, config) as made:
        yield Pair(made, kafka, topic, url, logs)


def killed_again_and_again(pair: Pair, kills: int) -> None:
    """Kill the leader while it works, and let the other one take over, each time."""
    rng = random.Random(kills)
    pair.start()
    pair.made.wait_for_log("running")
    pair.start()
    pair.made.wait_for_log("following")
    for kill in range(kills):
        epoch, commits, _ = pair.record()
        pair.send((kill + 0.5) / (kills + 1))
        pair.wait_for_commit(epoch, commits)
        time.sleep(rng.random() * 0.3)
        leader = pair.leader()
        leader.send_signal(signal.SIGKILL)
        leader.wait()
        _, commits, _ = pair.record()
        pair.send((kill + 1) / (kills + 1))
        pair.wait_for_commit(epoch + 1, commits)
        following = len(pair.events("following"))
        pair.start()
        pair.made.wait_for_log("following", times=following + 1)
    pair.send(1.0)
    pair.wait_until_all_is_committed()
    took = pair.events("took_over")
    assert len(took) == kills
    # At most what the leader has committed between two looks, never the history.
    assert all(int(str(each["replayed_messages"])) <= 8_000 for each in took)
    assert pair.record()[0] == kills + 1


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_other_replica_takes_over_from_a_killed_leader(
    kafka: Broker, postgres_url: str, tmp_path: Path
) -> None:
    with pair_of(kafka, postgres_url, tmp_path, readings(15_000, random.Random(1))) as pair:
        killed_again_and_again(pair, 1)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(1_800)
def test_leaders_are_killed_again_and_again(kafka: Broker, postgres_url: str, tmp_path: Path) -> None:
    with pair_of(kafka, postgres_url, tmp_path, readings(200_000, random.Random(2))) as pair:
        killed_again_and_again(pair, 20)


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_a_leader_that_is_suspended_within_its_commit_is_taken_over_and_follows(
    kafka: Broker, postgres_url: str, tmp_path: Path
) -> None:
    with pair_of(kafka, postgres_url, tmp_path, readings(20_000, random.Random(3))) as pair:
        made = pair.made
        leader = made.start_to_suspend("commit.after_tables:8", "--standby")
        made.wait_for_log("running")
        pair.start()
        made.wait_for_log("following")
        for share in range(1, 10):
            pair.send(share / 20)
            time.sleep(0.3)
        # The lock of the fence is held until the follower has the session ended.
        pair.wait_for_commit(2, 0)
        assert pair.leader() is not leader
        pair.send(0.7)
        pair.wait_until_all_is_committed()
        leader.send_signal(signal.SIGCONT)
        made.wait_for_log("follows_again")
        made.wait_for_log("following", times=2)
        # Both are there, so that the first one can lead again.
        pair.leader().send_signal(signal.SIGKILL)
        _, commits, _ = pair.record()
        pair.send(1.0)
        pair.wait_for_commit(3, commits)
        assert pair.leader() is leader
        pair.wait_until_all_is_committed()
