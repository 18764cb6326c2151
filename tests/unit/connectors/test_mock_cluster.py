"""librdkafka's mock cluster, which the demo runs on, answers no questions about topics' settings."""

import confluent_kafka as ck

from rowtide_connectors.registry import find_source


def test_topics_of_a_mock_cluster_count_as_not_compacted_at_once() -> None:
    producer = ck.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    producer.produce("t", b"x")
    producer.flush(10)
    server = {"bootstrap_servers": f"{broker.host}:{broker.port}", "timeout_s": "10"}
    source = find_source("kafka").open(server, {"topic": "t"})
    assert not source.is_compacted()
    assert sum(held.end for held in source.ranges().values()) == 1
    source.close()
