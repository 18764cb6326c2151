"""The memory connector: topics of a broker inside this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    MessageSinkConnector,
    Option,
    PolledConnector,
    SinkConnector,
    SourceConnector,
    TopicSource,
)
from rowtide_connectors.errors import OptionError
from rowtide_connectors.matching import TOPIC_PATTERN, TOPIC_TO_READ, MatchingTopics, topics_or_pattern
from rowtide_connectors.memory.broker import memory_broker
from rowtide_connectors.memory.sink import MemorySink
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.options import ConnectorOptions, read_options
from rowtide_connectors.several import TOPIC, one_topic, several

OWNER = 'connector "memory"'

SERVER_OPTIONS = (
    Option(
        "broker", str, "name of the broker in the process; created on first use", "server", default="default"
    ),
)
PARTITIONS = Option(
    "partitions", int, "number of partitions of the topic, if it does not exist yet", "stream", default=1
)
STREAM_OPTIONS = (TOPIC_TO_READ, TOPIC_PATTERN, PARTITIONS)
OPTIONS = SERVER_OPTIONS + STREAM_OPTIONS
SINK_OPTIONS = (TOPIC, PARTITIONS)


class MemoryTopics:
    """Topics of a broker; see ``api.SourceConnector``. Positions outlive a run, but not the process."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.IN_COMMIT

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        topics_or_pattern(_read_stream(OPTIONS, stream)[0], OWNER)

    def open(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a topic, which is made if it does not exist, or of those that match."""
        broker = memory_broker(read_options(OWNER, OPTIONS, "server", server).get("broker", str))
        options, partitions = _read_stream(OPTIONS, stream)
        topics = topics_or_pattern(options, OWNER)
        if not isinstance(topics, tuple):
            return MatchingTopics(
                topics, broker.topics, lambda topic: MemorySource(broker, topic), every_s=0.0
            )
        for topic in topics:
            broker.ensure_topic(topic, partitions)
        return several([MemorySource(broker, topic) for topic in topics])


class MemoryMessages:
    """Topics that pumps write to; see ``api.MessageSinkConnector``."""

    options: Sequence[Option] = SINK_OPTIONS
    guarantee = Guarantee.BY_COMMIT_NUMBER

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        one_topic(_read_stream(SINK_OPTIONS, stream)[0].get("topic", str), OWNER)

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee, which no option changes."""
        return self.guarantee

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a topic, which is made if it does not exist."""
        broker = memory_broker(read_options(OWNER, OPTIONS, "server", server).get("broker", str))
        options, partitions = _read_stream(SINK_OPTIONS, stream)
        topic = one_topic(options.get("topic", str), OWNER)
        broker.ensure_topic(topic, partitions)
        return MemorySink(broker, topic, sender)


class MemoryConnector:
    """Reads and writes topics of ``memory_broker(name)``; their messages end with the process."""

    name = "memory"
    description = "topics of a broker inside the process, for tests and demos"
    options: Sequence[Option] = SERVER_OPTIONS
    client_options: str | None = None
    source: SourceConnector | None = MemoryTopics()
    sink: SinkConnector | None = None
    polled: PolledConnector | None = None
    message_sink: MessageSinkConnector | None = MemoryMessages()

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_options(OWNER, OPTIONS, "server", server)

    def check(self, server: Mapping[str, str]) -> str:
        """Return the number of topics; this broker is always up."""
        name = read_options(OWNER, OPTIONS, "server", server).get("broker", str)
        return f'broker "{name}" in this process: {len(memory_broker(name).topics())} topic(s)'


def _read_stream(declared: Sequence[Option], stream: Mapping[str, str]) -> tuple[ConnectorOptions, int]:
    """Return the options and the number of partitions."""
    options = read_options(OWNER, declared, "stream", stream)
    partitions = options.get("partitions", int)
    if partitions < 1:
        raise OptionError(
            f"option \"partitions\" of {OWNER} has the value '{partitions}'",
            hint="It must be at least 1.",
            option="partitions",
        )
    return options, partitions
