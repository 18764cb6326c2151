"""The memory connector: topics of a broker inside this process."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide_connectors.api import Database, Option, TopicSource
from rowtide_connectors.errors import OptionError
from rowtide_connectors.memory.broker import memory_broker
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.options import read_options

OWNER = 'connector "memory"'

OPTIONS = (
    Option(
        "broker", str, "which of the process's brokers; made when first named", "server", default="default"
    ),
    Option("topic", str, "the topic to read", "stream", required=True),
    Option(
        "partitions", int, "how many partitions the topic gets if it does not exist yet", "stream", default=1
    ),
)


class MemoryConnector:
    """Reads topics of ``memory_broker(name)``; what is in them ends with the process."""

    name = "memory"
    description = "topics of a broker inside the process, for tests and demos"
    options = OPTIONS

    def check_options(self, applies_to: str, given: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_options(OWNER, OPTIONS, applies_to, given)

    def source(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a topic, which is made if it does not exist."""
        broker = memory_broker(read_options(OWNER, OPTIONS, "server", server).get("broker", str))
        options = read_options(OWNER, OPTIONS, "stream", stream)
        topic, partitions = options.get("topic", str), options.get("partitions", int)
        if partitions < 1:
            raise OptionError(
                f"option \"partitions\" of {OWNER} has the value '{partitions}'",
                hint="It must be at least 1.",
            )
        broker.ensure_topic(topic, partitions)
        return MemorySource(broker, topic)

    def database(self, server: Mapping[str, str]) -> Database:
        """Refuse: the broker is no database."""
        raise OptionError(
            'server of wrapper "memory" is not a database',
            hint="Use wrapper RDBMS; url 'sqlite://' is a database in memory.",
        )

    def check(self, server: Mapping[str, str]) -> str:
        """Return how many topics there are; this one is never down by itself."""
        name = read_options(OWNER, OPTIONS, "server", server).get("broker", str)
        return f'broker "{name}" in this process: {len(memory_broker(name).topics())} topic(s)'
