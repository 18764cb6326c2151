"""A Kafka topic gets partitions while its pipeline runs and while it is down, and is created again in the end."""

import json
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from real.kafka import Broker
from rowtide_connectors.registry import find_source
from support.service import config_for, positions_in, sample, service
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

START = 1_700_000_000_000


def test_a_compacted_topic_is_known_by_its_policy(kafka: Broker) -> None:
    for policy, compacted in (("compact", True), ("compact,delete", True), ("delete", False)):
        topic = kafka.create_topic(1, cleanup_policy=policy)
        source = find_source("kafka").open({"bootstrap_servers": kafka.bootstrap_servers}, {"topic": topic})
        assert source.is_compacted() is compacted
        source.close()


def test_who_stamps_messages_is_known_by_the_topics_setting(kafka: Broker) -> None:
    for kind, appended in (("LogAppendTime", True), ("CreateTime", False)):
        topic = kafka.create_topic(1, message_timestamp_type=kind)
        source = find_source("kafka").open({"bootstrap_servers": kafka.bootstrap_servers}, {"topic": topic})
        assert source.has_append_times() is appended
        source.close()


def produce(kafka: Broker, topic: str, partition: int, timestamps: range) -> None:
    """Write readings."""
    values = [b'{"number":%d,"sensor":"s%d","amount":1}' % (at - START, partition) for at in timestamps]
    kafka.produce(topic, values, partition=partition, timestamps=list(timestamps))


@pytest.mark.postgres
def test_partitions_join_behind_the_streams_bound_and_a_topic_made_anew_is_refused(
    kafka: Broker, postgres_url: str, tmp_path: Path
) -> None:
    topic = kafka.create_topic(2)
    config = config_for(kafka.bootstrap_servers, topic, postgres_url)

    def wait_for(positions: dict[int, int]) -> None:
        wait_until(
            lambda: positions_in(postgres_url) == positions,
            lambda: (positions_in(postgres_url), made.log.read_text()[-3_000:]),
        )

    with service(tmp_path, config) as made:
        for partition in range(2):
            produce(kafka, topic, partition, range(START, START + 100_000, 1_000))
        process = made.start()
        wait_for({0: 100, 1: 100})
        kafka.add_partitions(topic, 3)
        made.wait_for_log("partition_joins")
        # The others stand at 99 s, less 2 s of WITHIN.
        produce(kafka, topic, 2, range(START + 96_998, START + 97_002))
        wait_for({0: 100, 1: 100, 2: 4})
        process.send_signal(signal.SIGKILL)
        process.wait()
        kafka.add_partitions(topic, 4)
        produce(kafka, topic, 3, range(START + 80_000, START + 120_000, 10_000))
        for partition in range(3):
            produce(kafka, topic, partition, range(START + 200_000, START + 201_000, 100))
        process = made.start()
        wait_for({0: 110, 1: 110, 2: 14, 3: 4})
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        (line,) = [each for each in made.log.read_text().splitlines() if '"event": "stopped"' in each]
        ended = json.loads(line)
        assert (ended["read"], ended["late"], ended["rejected"]) == (34, {"ORDERED": 2}, {})
        assert ended["written"]["READINGS_LOG"] + ended["held"] >= 30

        rows = json.loads(made.run("errors list", "--json").stdout)["errors"]
        found = {(row["kind"], row["partition"], row["offset"], row["late_by_ms"]) for row in rows}
        assert found == {("LATE", 2, 0, 2), ("LATE", 2, 1, 1), ("LATE", 3, 0, 17_000), ("LATE", 3, 1, 7_000)}
        answer = made.run("replay", "--compare")
        assert answer.exit_code == 0, answer.stdout + answer.stderr

        kafka.delete_topic(topic)
        wait_until(lambda: topic not in kafka.admin.list_topics(timeout=10).topics)
        kafka.create_topic(4, name=topic)
        for partition in range(2):
            produce(kafka, topic, partition, range(START, START + 300_000, 1_000))
        refused = made.run("run")
        assert refused.exit_code == 2
        assert "was deleted and created again" in refused.stderr


def make_anew(kafka: Broker, topic: str, partitions: int) -> None:
    """Delete a topic and create it again as soon as the broker lets us."""
    kafka.delete_topic(topic)
    deadline = time.monotonic() + 30
    while True:
        try:
            kafka.create_topic(partitions, name=topic)
            return
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.postgres
def test_no_row_of_a_topic_made_anew_while_the_service_runs_is_committed(
    kafka: Broker, postgres_url: str, tmp_path: Path
) -> None:
    topic = kafka.create_topic(2)
    config = config_for(kafka.bootstrap_servers, topic, postgres_url, commit={"interval_ms": 20})
    with service(tmp_path, config) as made:
        for partition in range(2):
            produce(kafka, topic, partition, range(START, START + 100_000, 1_000))
        process = made.start()
        wait_until(
            lambda: positions_in(postgres_url) == {0: 100, 1: 100}, lambda: made.log.read_text()[-3_000:]
        )
        seen = sample(postgres_url)
        make_anew(kafka, topic, 2)
        # Far more than was read: by offsets alone it could be the same topic.
        for partition in range(2):
            produce(kafka, topic, partition, range(START + 200_000, START + 1_200_000, 1_000))
        assert process.wait(60) == 2, made.log.read_text()[-3_000:]
        log = made.log.read_text()
        assert "was deleted and created again" in log or "is not the topic that the pipeline has read" in log
        assert sample(postgres_url) == seen
        refused = made.run("run")
        assert refused.exit_code == 2
        assert "was deleted and created again" in refused.stderr
        assert sample(postgres_url) == seen
