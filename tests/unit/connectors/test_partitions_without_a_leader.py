"""A partition without a leader: queries wait for one, within the time limit of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import confluent_kafka as ck
import pytest

from rowtide_connectors.errors import GoneError, UnavailableError
from rowtide_connectors.kafka import source as kafka_source
from rowtide_connectors.kafka.client import NO_LEADER
from rowtide_connectors.kafka.source import KafkaSource


class Answers:
    """A consumer whose queries fail some times with ``code``: as a whole, or for the second partition."""

    def __init__(self, code: int, fails: int, *, as_a_whole: bool) -> None:
        self.code, self.left, self.as_a_whole = code, fails, as_a_whole

    def offsets_for_times(self, asked: Sequence[ck.TopicPartition], timeout: float) -> list[Any]:
        if not self.left:
            return [Answer(each.partition, None) for each in asked]
        self.left -= 1
        error = ck.KafkaError(self.code)
        if self.as_a_whole:
            raise ck.KafkaException(error)
        return [Answer(each.partition, error if each.partition else None) for each in asked]

    def list_topics(self, topic: str, timeout: float) -> Any:
        error = ck.KafkaError(self.code) if self.left else None
        self.left -= error is not None
        return Metadata({topic: Topic(error)})

    def poll(self, timeout: float) -> None: ...


class Answer:
    offset = 7

    def __init__(self, partition: int, error: ck.KafkaError | None) -> None:
        self.partition, self.error = partition, error


class Topic:
    partitions = dict.fromkeys([0, 1])

    def __init__(self, error: ck.KafkaError | None) -> None:
        self.error = error


class Metadata:
    def __init__(self, topics: dict[str, Topic]) -> None:
        self.topics = topics


def source_of(monkeypatch: pytest.MonkeyPatch, answers: Answers, timeout_s: float) -> KafkaSource:
    monkeypatch.setattr(kafka_source, "open_consumer", lambda *_: answers)
    monkeypatch.setattr("rowtide_connectors.kafka.client.RETRY_S", 0.0)
    return KafkaSource("t", {}, timeout_s=timeout_s)


@pytest.mark.parametrize("as_a_whole", [True, False])
@pytest.mark.parametrize("code", sorted(NO_LEADER))
def test_queries_wait_for_a_leader(monkeypatch: pytest.MonkeyPatch, code: int, as_a_whole: bool) -> None:
    answers = Answers(code, 3, as_a_whole=as_a_whole)
    source = source_of(monkeypatch, answers, timeout_s=60.0)
    assert {partition: (held.earliest, held.end) for partition, held in source.ranges().items()} == {
        0: (7, 7),
        1: (7, 7),
    }
    answers.left = 3
    assert source.offsets_at(5) == {0: 7, 1: 7}


@pytest.mark.parametrize("as_a_whole", [True, False])
def test_without_a_leader_in_time_the_topic_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, as_a_whole: bool
) -> None:
    answers = Answers(ck.KafkaError.NOT_LEADER_FOR_PARTITION, 10**9, as_a_whole=as_a_whole)
    with pytest.raises(UnavailableError, match='topic "t" cannot be read'):
        source_of(monkeypatch, answers, timeout_s=0.0).ranges()


def test_other_errors_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(ck.KafkaError.UNKNOWN_TOPIC_OR_PART, 1, as_a_whole=True)
    with pytest.raises(GoneError, match='topic "t" does not exist'):
        source_of(monkeypatch, answers, timeout_s=60.0).ranges()
    assert answers.left == 0
