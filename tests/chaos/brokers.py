"""Three brokers in KRaft mode: each partition is on all of them, and acknowledged when two have it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from real.kafka import ANSWER_S, READY_S, Broker
from rowtide.testing.kafka_server import KafkaServer
from rowtide.testing.processes import LOCAL, free_port

NODES = (1, 2, 3)

_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
    # A dead broker is noticed after 3 s, not 9.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class Cluster(Broker):
    """The brokers, as one to clients."""

    replicas = len(NODES)

    def __init__(self, folder: Path) -> None:
        controllers = {node: free_port() for node in NODES}
        voters = ",".join(f"{node}@{LOCAL}:{port}" for node, port in controllers.items())
        self._servers: dict[int, KafkaServer] = {}
        for node, port in controllers.items():
            own = folder / str(node)
            own.mkdir()
            settings = {
                **_SETTINGS,
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{{host}}:{{port}},CONTROLLER://{LOCAL}:{port}",
            }
            self._servers[node] = KafkaServer(own, settings)
        super().__init__(",".join(each.bootstrap_servers for each in self._servers.values()))
        self._down: set[int] = set()

    def start(self) -> None:
        """Start all brokers; returns when they serve transactions."""
        for each in self._servers.values():
            each.start()
        self.wait_until_ready()

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition."""
        return self.admin.list_topics(topic, ANSWER_S).topics[topic].partitions[partition].leader

    def kill(self, node: int) -> None:
        """Kill a broker."""
        self._servers[node].stop(kill=True)
        self._down.add(node)

    def restart(self, topic: str) -> None:
        """Start the brokers that are down, and wait until every partition of a topic is on all brokers."""
        for node in self._down:
            self._servers[node].start()
        self._down.clear()
        deadline = time.monotonic() + READY_S
        while True:
            partitions = self.admin.list_topics(topic, ANSWER_S).topics[topic].partitions.values()
            if all(len(each.isrs) == len(NODES) for each in partitions):
                return
            assert time.monotonic() < deadline, "a broker does not catch up"
            time.sleep(0.2)

    def suspend(self) -> None:
        """Suspend all brokers."""
        for each in self._servers.values():
            each.suspend()

    def resume(self) -> None:
        """Let them continue."""
        for each in self._servers.values():
            each.resume()

    def stop(self) -> None:
        """Stop all brokers."""
        self.resume()
        for each in self._servers.values():
            each.stop(kill=True)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Start three brokers for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="rowtide-brokers-") as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()
