"""The Kafka connector: its options, and how they map to librdkafka's configuration.

confluent_kafka is imported only when something is opened.
"""

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
from rowtide_connectors.matching import (
    TOPIC_PATTERN,
    TOPIC_TO_READ,
    MatchingTopics,
    topics_or_pattern,
)
from rowtide_connectors.options import ConnectorOptions, read_options
from rowtide_connectors.several import TOPIC, one_topic, several

OWNER = 'connector "kafka"'

OURS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "client.id",
        "acks",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "isolation.level",
        "message.max.bytes",
        "transactional.id",
    }
)
"""Settings that users cannot set: exactly-once depends on them, or Rowtide has an option for them."""

BUFFER_KBYTES = 65536
"""The most that librdkafka buffers per reader before it stops fetching: one second at 500,000 messages/s."""
FETCH_KBYTES = 8192
"""The most that a broker sends in one response, compressed. It adds to ``BUFFER_KBYTES``, because
librdkafka fetches as long as its buffer is not full. librdkafka's default (50 MB) is not faster."""
PARTITION_FETCH_BYTES = 1024 * 1024
"""The share of one partition: librdkafka's default, so that one response covers several partitions."""
BUFFER_MESSAGES = 100_000
"""The most messages that librdkafka buffers per reader: small ones take several times their bytes."""

SERVER_OPTIONS = (
    Option(
        "bootstrap_servers",
        str,
        "bootstrap brokers, as host:port, separated by commas",
        "server",
        required=True,
    ),
    Option("client_id", str, "name of this client in the broker's logs", "server", default="rowtide"),
    Option("group_id", str, "name of the consumer group; the client never joins it", "server", "rowtide"),
    Option("timeout_s", float, "time limit of a request to the broker, in seconds", "server", default=10.0),
    Option(
        "buffer_kbytes",
        int,
        "KiB of messages that the client holds for one stream, over all partitions, before they are read",
        "server",
        default=BUFFER_KBYTES,
    ),
    Option(
        "fetch_kbytes",
        int,
        "largest response of a broker, compressed, in KiB; it adds to buffer_kbytes",
        "server",
        default=FETCH_KBYTES,
    ),
)
STREAM_OPTIONS = (TOPIC_TO_READ, TOPIC_PATTERN)
OPTIONS = SERVER_OPTIONS + STREAM_OPTIONS
FIND_TOPICS_S = 5.0
"""The least interval of queries for all topics, which a stream with a pattern makes."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
SINK_OPTIONS = (
    TOPIC,
    Option(
        "delivery",
        str,
        f"{EXACTLY_ONCE}, in transactions of Kafka, or {AT_LEAST_ONCE}, without",
        "stream",
        default=EXACTLY_ONCE,
    ),
)


class KafkaTopics:
    """Topics as sources; see ``api.SourceConnector``. The caller keeps the positions."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.IN_COMMIT

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        topics_or_pattern(read_options(OWNER, OPTIONS, "stream", stream), OWNER)

    def open(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a topic, of several, or of those that match; it connects at its first use."""
        from rowtide_connectors.kafka.source import KafkaSource, QueryClients

        options = read_server(server)
        topics = topics_or_pattern(read_options(OWNER, OPTIONS, "stream", stream), OWNER)
        config, timeout_s = client_config(options), options.get("timeout_s", float)
        clients = QueryClients(config, timeout_s=timeout_s)

        def of_topic(topic: str) -> TopicSource:
            return KafkaSource(topic, config, timeout_s=timeout_s, clients=clients)

        if isinstance(topics, tuple):
            return several([of_topic(topic) for topic in topics])
        what = f"topics that match '{topics.pattern}'"
        return MatchingTopics(topics, lambda: clients.names(what), of_topic, every_s=FIND_TOPICS_S)


class KafkaMessages:
    """Topics that pumps write to; see ``api.MessageSinkConnector``."""

    options: Sequence[Option] = SINK_OPTIONS
    guarantee = Guarantee.IN_TRANSACTIONS

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        options = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        one_topic(options.get("topic", str), OWNER)
        given = options.get("delivery", str).lower()
        if given not in (EXACTLY_ONCE, AT_LEAST_ONCE):
            raise OptionError(
                f"option \"delivery\" of {OWNER} has the value '{given}'",
                hint=f"It must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}.",
                option="delivery",
            )

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee of a stream with these options."""
        given = read_options(OWNER, SINK_OPTIONS, "stream", stream).get("delivery", str).lower()
        return Guarantee.AT_LEAST_ONCE if given == AT_LEAST_ONCE else Guarantee.IN_TRANSACTIONS

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a topic; it connects at its first use."""
        from rowtide_connectors.kafka.sink import KafkaSink

        self.check_options(stream)
        options = read_server(server)
        own = read_options(OWNER, SINK_OPTIONS, "stream", stream)
        return KafkaSink(
            one_topic(own.get("topic", str), OWNER),
            client_config(options),
            sender,
            guarantee=self.guarantee_of(stream),
            max_message_bytes=max_message_bytes,
            timeout_s=options.get("timeout_s", float),
        )


class KafkaConnector:
    """Reads and writes topics; group offsets are used for the number of the last message sent, and nothing else."""

    name = "kafka"
    description = "Apache Kafka topics"
    options: Sequence[Option] = SERVER_OPTIONS
    source: SourceConnector | None = KafkaTopics()
    sink: SinkConnector | None = None
    polled: PolledConnector | None = None
    message_sink: MessageSinkConnector | None = KafkaMessages()
    client_options: str | None = (
        "every setting of librdkafka, under its own name, which has a dot, in quotes: "
        """OPTIONS ("security.protocol" 'SASL_SSL'); not those that Rowtide sets: """
        f"{', '.join(sorted(OURS))}"
    )

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_server(server)

    def check(self, server: Mapping[str, str]) -> str:
        """Ask the cluster for its brokers; return one line that describes it."""
        from rowtide_connectors.kafka.client import cluster_line

        options = read_server(server)
        return cluster_line(client_config(options), options.get("timeout_s", float))


def read_server(server: Mapping[str, str]) -> ConnectorOptions:
    """Read a server's options; names with a dot are librdkafka's.

    Raises:
      OptionError: also for a librdkafka option that Rowtide sets itself.
    """
    for name in server:
        if name in OURS:
            underscored = name.replace(".", "_")
            own = [option.name for option in SERVER_OPTIONS if option.name == underscored]
            raise OptionError(
                f'option "{name}" of {OWNER} cannot be set under this name',
                hint=f'Use "{own[0]}".' if own else "Rowtide sets it: exactly-once rests on it.",
                option=name,
            )
    return read_options(OWNER, OPTIONS, "server", server, is_client_option=lambda name: "." in name)


def client_config(options: ConnectorOptions) -> dict[str, object]:
    """Return librdkafka's configuration of readers: committed messages only, partition ends reported."""
    fetch_bytes = 1024 * options.get("fetch_kbytes", int)
    return {
        # By default the client pauses for a whole second after its buffer was full. A shorter pause
        # alone quadruples the messages/s under load.
        "fetch.queue.backoff.ms": 5,
        # New data ends the wait at once, but a resumed partition waits until the requests of the others end.
        "fetch.wait.max.ms": 100,
        # Reconnect to a restarted broker within a second.
        "reconnect.backoff.max.ms": 1000,
        "queued.max.messages.kbytes": options.get("buffer_kbytes", int),
        "queued.min.messages": BUFFER_MESSAGES,
        "fetch.max.bytes": fetch_bytes,
        "max.partition.fetch.bytes": min(fetch_bytes, PARTITION_FETCH_BYTES),
        **options.client,
        "bootstrap.servers": options.get("bootstrap_servers", str),
        "client.id": options.get("client_id", str),
        "group.id": options.get("group_id", str),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # Report a position that no longer exists; never replace it by another one.
        "auto.offset.reset": "error",
    }
