"""The Kafka connector: its options, and what becomes of them in librdkafka's configuration.

confluent_kafka is imported only when something is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide_connectors.api import Guarantee, Option, SinkConnector, SourceConnector, TopicSource
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import ConnectorOptions, read_options

OWNER = 'connector "kafka"'

OURS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "client.id",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "isolation.level",
    }
)
"""What exactly-once rests on, or has an option of ours: not to be set under librdkafka's name."""

BUFFER_KBYTES = 65536
"""What librdkafka may hold per reader before it stops fetching: a second of work at 500,000 messages/s."""
FETCH_KBYTES = 8192
"""What a broker may send in one answer, compressed: it comes on top of ``BUFFER_KBYTES``, since librdkafka
asks for more as long as its buffer is not full. Its own default (50 MB) makes reading no quicker."""
PARTITION_FETCH_BYTES = 1024 * 1024
"""What one partition may have of it: librdkafka's default, so that several have their turn."""
BUFFER_MESSAGES = 100_000
"""Messages that librdkafka may hold per reader: small ones weigh several times their bytes."""

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
STREAM_OPTIONS = (Option("topic", str, "the topic to read", "stream", required=True),)
OPTIONS = SERVER_OPTIONS + STREAM_OPTIONS


class KafkaTopics:
    """Topics that are read; see ``api.SourceConnector``. Positions are the caller's."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.IN_COMMIT

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_options(OWNER, OPTIONS, "stream", stream)

    def open(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a topic; nothing is connected before its first use."""
        from rowtide_connectors.kafka.source import KafkaSource

        options = read_server(server)
        topic = read_options(OWNER, OPTIONS, "stream", stream).get("topic", str)
        return KafkaSource(topic, client_config(options), timeout_s=options.get("timeout_s", float))


class KafkaConnector:
    """Reads topics; group offsets are never used."""

    name = "kafka"
    description = "Apache Kafka topics"
    options: Sequence[Option] = SERVER_OPTIONS
    source: SourceConnector | None = KafkaTopics()
    sink: SinkConnector | None = None
    client_options: str | None = (
        "every setting of librdkafka for consumers, under its own name, which has a dot, in quotes: "
        """OPTIONS ("security.protocol" 'SASL_SSL'); not those that Rowtide sets: """
        f"{', '.join(sorted(OURS))}"
    )

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_server(server)

    def check(self, server: Mapping[str, str]) -> str:
        """Ask the cluster for its brokers; give one line of what answered."""
        from rowtide_connectors.kafka.client import cluster_line

        options = read_server(server)
        return cluster_line(client_config(options), options.get("timeout_s", float))


def read_server(server: Mapping[str, str]) -> ConnectorOptions:
    """Read a server's options; names with a dot are librdkafka's own.

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
    """Return librdkafka's configuration for reading as we read: assigned, committed only, holes seen."""
    fetch_bytes = 1024 * options.get("fetch_kbytes", int)
    return {
        # Under load the client must not stand still for the default of a whole second when its
        # buffer was full: this alone is a factor of four in messages/s.
        "fetch.queue.backoff.ms": 5,
        # New data ends the wait at once; but a partition that is resumed waits for the others' to end.
        "fetch.wait.max.ms": 100,
        # A broker that is coming back should be found within a second.
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
        # A position that is gone must be reported, never be replaced by another one.
        "auto.offset.reset": "error",
    }
