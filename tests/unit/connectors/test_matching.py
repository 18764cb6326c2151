"""Topics that match a pattern: their places, those that come later, and what is refused."""

from __future__ import annotations

import re
import uuid

import pytest

from rowtide_connectors.errors import (
    ConnectorError,
    GoneError,
    MismatchError,
    MissingOptionError,
    OptionError,
)
from rowtide_connectors.kafka.connector import KafkaConnector
from rowtide_connectors.matching import MatchingTopics, matches
from rowtide_connectors.memory import MemoryBroker, memory_broker
from rowtide_connectors.memory.connector import MemoryConnector
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.several import number_of, place_of


@pytest.fixture
def broker() -> MemoryBroker:
    return memory_broker(uuid.uuid4().hex)


def matching(broker: MemoryBroker, pattern: str = "orders-.*") -> MatchingTopics:
    return MatchingTopics(
        re.compile(pattern), broker.topics, lambda topic: MemorySource(broker, topic), every_s=0.0
    )


def places(source: MatchingTopics) -> list[tuple[str, int]]:
    numbers = sorted(source.ranges())
    return sorted(place_of(source.topic, number) for number in numbers)


def test_topics_that_exist_have_places_in_the_order_of_their_names(broker: MemoryBroker) -> None:
    for topic in ("orders-us", "returns", "orders-eu", "all-orders-eu", "__orders-x"):
        broker.create_topic(topic, 2)
    source = matching(broker)
    assert sorted(source.ranges()) == sorted(number_of(at, own) for at in (0, 1) for own in (0, 1))
    assert source.topic == "orders-eu,orders-us"


def test_a_topic_that_comes_later_gets_the_next_place_and_no_number_changes(broker: MemoryBroker) -> None:
    broker.create_topic("orders-m", 2)
    source = matching(broker)
    before = set(source.ranges())
    broker.create_topic("orders-a", 1)
    after = set(source.ranges())
    assert after - before == {number_of(1, 0)}
    assert source.topic == "orders-m,orders-a"
    broker.produce("orders-a", [b"x"], timestamps=[7])
    assert source.fetch(number_of(1, 0), [0])[0].value == b"x"
    assert source.offsets_at(8)[number_of(1, 0)] == 1
    assert source.identity_of(number_of(1, 0)) == MemorySource(broker, "orders-a").identity()


def test_a_source_that_adopts_committed_topics_numbers_them_as_committed(broker: MemoryBroker) -> None:
    for topic in ("orders-a", "orders-b", "orders-c"):
        broker.create_topic(topic, 1)
    source = matching(broker)
    assert places(source) == [("orders-a", 0), ("orders-b", 0), ("orders-c", 0)]
    source.adopt({number_of(0, 0): "orders-c", number_of(2, 0): "orders-b"})
    assert source.topic == "orders-c,,orders-b"
    assert sorted(source.ranges()) == [number_of(at, 0) for at in range(3)]
    assert source.topic == "orders-c,orders-a,orders-b"


def test_kafkas_own_topics_never_match() -> None:
    assert not matches(re.compile(".*"), "__consumer_offsets")
    assert matches(re.compile(".*"), "_schemas")
    assert not matches(re.compile("orders"), "orders-eu"), "the whole name"


def test_without_a_topic_the_pattern_is_named(broker: MemoryBroker) -> None:
    source = matching(broker)
    assert source.topic == "orders-.*"
    with pytest.raises(GoneError, match=r"no topic matches topic_pattern 'orders-\.\*'"):
        source.identity()


def test_a_topic_that_was_read_and_is_deleted_is_named(broker: MemoryBroker) -> None:
    broker.create_topic("orders-eu")
    source = matching(broker)
    source.ranges()
    broker.delete_topic("orders-eu")
    with pytest.raises(GoneError, match='topic "orders-eu", which the stream reads by topic_pattern'):
        source.ranges()


def test_a_topic_that_is_deleted_while_it_is_found_is_left_out(broker: MemoryBroker) -> None:
    broker.create_topic("orders-eu")
    source = MatchingTopics(
        re.compile("orders-.*"),
        lambda: ["orders-gone", "orders-eu"],
        lambda topic: MemorySource(broker, topic),
        every_s=0.0,
    )
    assert places(source) == [("orders-eu", 0)]


def test_a_new_topic_with_settings_that_a_start_must_know_needs_a_start(broker: MemoryBroker) -> None:
    broker.create_topic("orders-eu")
    source = matching(broker)
    assert not source.is_compacted()
    broker.create_topic("orders-latest")
    broker.compacted.add("orders-latest")
    with pytest.raises(MismatchError, match=r'"orders-latest" is new, .* and is compacted') as refused:
        source.ranges()
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("Start the pipeline again")
    again = matching(broker)
    assert again.is_compacted()
    assert again.compacted() == ["orders-latest"]
    assert len(again.ranges()) == 2


def test_too_many_topics_are_refused(broker: MemoryBroker) -> None:
    broker.create_topic("orders-a", 100)
    for at in range(80):
        broker.create_topic(f"orders-b{at}", 1)
    source = matching(broker)
    assert len(source.ranges()) == 180
    broker.create_topic("orders-c", 101)
    with pytest.raises(MismatchError, match="too many topics match topic_pattern") as refused:
        source.ranges()
    assert "UNION ALL" in str(refused.value.hint)
    assert len(source.topic.split(",")) == 81, "nothing has changed"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"topic": "a", "topic_pattern": "b.*"},
            OptionError,
            'options "topic" and "topic_pattern" of .* exclude',
        ),
        ({}, MissingOptionError, 'option "topic" of .* is missing'),
        ({"topic_pattern": ""}, OptionError, 'option "topic_pattern" of .* is empty'),
        (
            {"topic_pattern": "*-orders"},
            OptionError,
            r"is not a regular expression: '\*-orders': nothing to repeat",
        ),
        ({"topic_pattern": "orders-(eu"}, OptionError, r"is not a regular expression: .* unterminated"),
    ],
)
def test_options_that_name_no_topics_are_refused(
    options: dict[str, str], error: type[ConnectorError], message: str
) -> None:
    for connector in (KafkaConnector(), MemoryConnector()):
        assert connector.source is not None
        with pytest.raises(error, match=message):
            connector.source.check_options(options)


def test_a_pattern_of_a_shell_is_explained() -> None:
    with pytest.raises(OptionError) as refused:
        MemoryConnector.source.check_options({"topic_pattern": "*-orders"})  # type: ignore[union-attr]
    assert "instead of '*'" in str(refused.value.hint)


def test_a_pump_writes_to_no_pattern() -> None:
    for connector in (KafkaConnector(), MemoryConnector()):
        assert connector.message_sink is not None
        with pytest.raises(OptionError, match='"topic_pattern"'):
            connector.message_sink.check_options({"topic_pattern": "a.*"})
