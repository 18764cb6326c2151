"""A real Apache Kafka broker: one node in KRaft mode, from its own jars; or a container."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from real.parts import missing, uses_containers
from rowtide.errors import RowtideError
from rowtide.testing.kafka_server import EVENT_TIME_CONFIG, KAFKA_VERSION, KafkaServer
from rowtide.testing.processes import LOCAL, free_port
from support.waiting import wait_until

READY_S = 150
"""A loaded machine takes a minute or two where an idle one takes 6 s."""

ANSWER_S = 60
"""How long the broker may take to do one thing."""

REQUEST_S = 15
"""How long one request waits for its answer before it is sent again."""

_UNANSWERED = (ck.KafkaError._TIMED_OUT, ck.KafkaError.REQUEST_TIMED_OUT)

QUIET: dict[str, Any] = {"log_level": 0}
"""What fails is raised; a broker that is not up yet need not be reported twenty times a second."""

_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Broker:
    """A broker under test: how it is reached, and topics with records of any age."""

    replicas = 1
    """Brokers that have each partition of a topic."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = self._admin()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})

    def create_topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """Make a topic that takes and keeps records of any timestamp; give its name.

        A request that is not answered is sent again by another client: the broker that got it may have lost its
        controller, and holds the request until it expires.

        ``config`` spells Kafka's names with underscores: ``cleanup_policy="compact"``.
        """
        topic = name or f"t-{uuid.uuid4().hex[:12]}"
        settings = {**EVENT_TIME_CONFIG} | {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, partitions, self.replicas, config=settings)
        deadline = time.monotonic() + READY_S
        is_again = False
        while True:
            try:
                for created in self.admin.create_topics([new], request_timeout=REQUEST_S).values():
                    created.result(ANSWER_S)
                break
            except ck.KafkaException as error:
                code = error.args[0].code()
                if is_again and code == ck.KafkaError.TOPIC_ALREADY_EXISTS:
                    break
                if code not in _UNANSWERED or time.monotonic() > deadline:
                    raise
            is_again, self.admin = True, self._admin()
        wait_until(lambda: self._has_leaders(topic, partitions))
        return topic

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have ``total`` partitions."""
        for added in self.admin.create_partitions([NewPartitions(topic, total)]).values():
            added.result(ANSWER_S)
        wait_until(lambda: self._has_leaders(topic, total))

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        """Return whether records can be written: the controller answers before the broker knows of partitions."""
        found = self.admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())

    def delete_topic(self, topic: str) -> None:
        for deleted in self.admin.delete_topics([topic]).values():
            deleted.result(ANSWER_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Let the records below offset ``before`` age out."""
        target = ck.TopicPartition(topic, partition, before)
        for deleted in self.admin.delete_records([target]).values():
            deleted.result(ANSWER_S)

    def producer(self, **config: object) -> ck.Producer:
        """Return a producer; ``config`` spells Kafka's names with underscores."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return ck.Producer(
            {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True}
            | QUIET
            | settings
        )

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        timestamps: Sequence[int] | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes]] | None] | None = None,
    ) -> None:
        """Write records and wait until the broker has them all."""
        producer = self.producer(queue_buffering_max_messages=1_000_000)
        for index, value in enumerate(values):
            optional: dict[str, Any] = {} if timestamps is None else {"timestamp": timestamps[index]}
            if headers is not None and headers[index] is not None:
                optional["headers"] = list(headers[index] or ())
            key = None if keys is None else keys[index]
            while True:
                try:
                    producer.produce(topic, value, key, partition, on_delivery=_must_arrive, **optional)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    @contextlib.contextmanager
    def transaction(self, topic: str, *, abort: bool = False) -> Iterator[ck.Producer]:
        """Produce in a transaction that commits, or aborts: either leaves a hole in the log."""
        producer = self.producer(transactional_id=f"x-{uuid.uuid4().hex[:12]}")
        producer.init_transactions(ANSWER_S)
        producer.begin_transaction()
        yield producer
        producer.flush(ANSWER_S)
        if abort:
            producer.abort_transaction(ANSWER_S)
        else:
            producer.commit_transaction(ANSWER_S)

    def committed(self, topic: str, *, settled: bool = True) -> dict[int, list[ck.Message]]:
        """Return what a reader of committed messages sees, by partition.

        A commit returns when its decision is logged, before each partition has its marker: a reader that
        comes at once ends before the messages of the partitions whose marker is still to be written
        (seen after 190 of 300 commits to three partitions). So this waits until no partition has an open
        transaction, and then reads to the ends. With ``settled`` False, for a sender that was killed
        within a transaction, it reads what is there now.
        """
        if settled:
            self._wait_for_markers(topic)
        settings = {"group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
        consumer = ck.Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "enable.partition.eof": True, **settings, **QUIET}
        )
        found: dict[int, list[ck.Message]] = {number: [] for number in self._partitions(topic)}
        left, deadline = set(found), time.monotonic() + READY_S
        try:
            consumer.assign([ck.TopicPartition(topic, number, 0) for number in found])
            while left:
                assert time.monotonic() < deadline, f"the ends of {topic!r} were not reached"
                for message in consumer.consume(5_000, 0.2):
                    error, number = message.error(), message.partition() or 0
                    if error is None:
                        found[number].append(message)
                    else:
                        assert error.code() == ck.KafkaError._PARTITION_EOF, error
                        left.discard(number)
        finally:
            consumer.close()
        return found

    def _partitions(self, topic: str) -> list[int]:
        return sorted(self.admin.list_topics(topic, ANSWER_S).topics[topic].partitions)

    def _wait_for_markers(self, topic: str) -> None:
        deadline = time.monotonic() + READY_S
        while self._ends(topic, ck.IsolationLevel.READ_COMMITTED) != self._ends(
            topic, ck.IsolationLevel.READ_UNCOMMITTED
        ):
            assert time.monotonic() < deadline, f"a transaction of {topic!r} is still open"
            time.sleep(0.05)

    def _ends(self, topic: str, level: ck.IsolationLevel) -> dict[int, int]:
        asked = {ck.TopicPartition(topic, number): _LATEST for number in self._partitions(topic)}
        answers = self.admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S)
        return {place.partition: answer.result(ANSWER_S).offset for place, answer in answers.items()}

    def wait_until_ready(self) -> None:
        """Wait until topics can be made and transactions begun: its coordinator loads for about a second."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                topic = self.create_topic()
                with self.transaction(topic) as producer:
                    producer.produce(topic, b"ready")
                return
            except (ck.KafkaException, TimeoutError):
                # A broker that has only just begun to listen takes a question and does not answer it.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def _must_arrive(error: ck.KafkaError | None, _: ck.Message) -> None:
    if error is not None:
        raise AssertionError(f"record was not written: {error}")


class JavaBroker(Broker):
    """Kafka from its own jars, in a process of ours that tests may kill and start again."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, is_brief: bool = False
    ) -> None:
        self._server = KafkaServer(directory, settings, is_brief=is_brief)
        self.is_up = False
        super().__init__(self._server.bootstrap_servers)

    def start(self) -> None:
        """Start the broker on its own log; returns when it serves transactions."""
        self._server.start()
        self.is_up = True
        self.wait_until_ready()

    def stop(self, *, kill: bool = False) -> None:
        """Stop the broker, or kill it; what it had acknowledged is there after ``start``."""
        self.is_up = False
        self._server.stop(kill=kill)


def container_settings(port: int) -> dict[str, str]:
    """Return the settings of a broker in a container whose port 9092 is published at ``port``.

    The broker talks to itself, as its transactions do, at an address that it reaches from within; the one
    that it names to clients leads to the host.
    """
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://localhost:9094,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOCAL}:{port},BROKER://localhost:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }


@contextlib.contextmanager
def docker_broker() -> Iterator[Broker]:
    """Run the project's own image of Kafka."""
    from testcontainers.core.container import DockerContainer

    port = free_port()
    container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_bind_ports(9092, port)
    for name, value in container_settings(port).items():
        container = container.with_env(name, value)
    with container:
        broker = Broker(f"{LOCAL}:{port}")
        broker.wait_until_ready()
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, one for the whole test run."""
    if uses_containers():
        with docker_broker() as broker:
            yield broker
        return
    started = _java_broker(tmp_path_factory.mktemp("kafka"))
    try:
        started.start()
        yield started
    finally:
        started.stop(kill=True)


@pytest.fixture(scope="module")
def kafka_that_stops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    """A second broker, for all tests of a module that stop it: a new one takes some 8 s."""
    started = _java_broker(tmp_path_factory.mktemp("kafka-that-stops"))
    try:
        yield started
    finally:
        started.stop(kill=True)


@pytest.fixture
def own_kafka(kafka_that_stops: JavaBroker) -> JavaBroker:
    """A running broker for tests that stop it, and start it again: no other test uses it meanwhile."""
    if not kafka_that_stops.is_up:
        kafka_that_stops.start()
    return kafka_that_stops


def _java_broker(directory: Path) -> JavaBroker:
    try:
        return JavaBroker(directory, is_brief=True)
    except RowtideError as error:
        missing("Apache Kafka", error)
