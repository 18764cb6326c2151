"""confluent_kafka's consumers and errors, wrapped once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from rowtide_connectors.errors import ConnectorError, DeniedError, GoneError, OptionError, UnavailableError

# librdkafka logs to standard error unless it has a logger; it reports relevant events as errors, too.
_LOG = logging.getLogger("rowtide_connectors.kafka")
# Without a handler, Python would write warnings to standard error.
_LOG.addHandler(logging.NullHandler())

_T = TypeVar("_T")

_OF_READING = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "queued.max.messages.kbytes",
        "queued.min.messages",
    }
)
"""Settings of a consumer that a producer does not take."""

_GONE = frozenset({ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC})
_DENIED = frozenset(
    {
        ck.KafkaError._AUTHENTICATION,
        ck.KafkaError.SASL_AUTHENTICATION_FAILED,
        ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
        ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
        ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ck.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_LEADER = frozenset(
    {
        ck.KafkaError.LEADER_NOT_AVAILABLE,
        ck.KafkaError.NOT_LEADER_FOR_PARTITION,
        ck.KafkaError.REPLICA_NOT_AVAILABLE,
        ck.KafkaError.FENCED_LEADER_EPOCH,
        ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""A partition has no leader, or another one than the client knows: after its creation, or when brokers change."""

_UNREACHABLE = frozenset({ck.KafkaError._TRANSPORT, ck.KafkaError._RESOLVE, ck.KafkaError._SSL})
_SLOW = _UNREACHABLE | {ck.KafkaError._TIMED_OUT}
_FIRST_LOOK_S = 1.0
"""Seconds after which a client whose brokers are all down is not waited for any longer."""
UNREACHABLE_HINT = (
    "Start the broker, or correct 'bootstrap_servers' (in the configuration: bootstrap_servers of the server) and the "
    "options of TLS and SASL. `rowtide connectors check` tries each server."
)

_OUT_OF_RANGE = frozenset({ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE})

RETRY_S = 0.1
"""Seconds before a query is repeated; Kafka's own clients wait as long (retry.backoff.ms)."""

DENIED_HINT = (
    "Correct the credentials in the options of the server, such as 'sasl.username' and 'sasl.password', or "
    "let the broker's ACLs allow the user to describe and read the topic."
)
DENIED_WRITING_HINT = (
    "Correct the credentials in the options of the server, such as 'sasl.username' and 'sasl.password', or "
    "let the broker's ACLs allow the user: WRITE, READ and DESCRIBE on the topic; for delivery 'exactly-once' also "
    "WRITE and DESCRIBE on transactional ids and READ on groups with the prefix rowtide-."
)
AGED_OUT_HINT = (
    "Kafka deletes by the records' own timestamps: set retention.ms=-1 on a topic with old event times. "
    "If the topic was deleted and created again, its offsets restarted at 0."
)


class Refusals:
    """Why a client does not get through: librdkafka reports it to a callback only, and the calls time out.

    ``last`` is the last refusal of credentials, ``unreachable`` why a broker cannot be connected to; ``all_down``: no
    broker can be.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop what was reported before a call."""
        self.last: ck.KafkaError | None = None
        self.unreachable: str | None = None
        self.all_down = False

    def __call__(self, error: ck.KafkaError) -> None:
        if error.code() in _DENIED:
            self.last = error
        elif error.code() == ck.KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        elif error.code() in _UNREACHABLE:
            self.unreachable = error.str()


def with_leaders(ask: Callable[[], _T], timeout_s: float) -> _T:
    """Call ``ask`` again, for ``timeout_s`` seconds, while a partition has no leader that the client knows.

    librdkafka does this for reading and writing, but not for queries.

    Raises:
      KafkaException: another error, or still no leader.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except ck.KafkaException as error:
            if error.args[0].code() not in NO_LEADER or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def topic_metadata(client: ck.Consumer, refusals: Refusals, topic: str, timeout_s: float) -> Any:
    """Look a topic up. If the broker has refused the credentials of ``client``, the error says so.

    Raises:
      KafkaException: the topic does not exist, or no broker answers.
    """
    return with_leaders(lambda: _topic_metadata(client, refusals, topic, timeout_s), timeout_s)


def cluster_metadata(
    client: ck.Consumer, refusals: Refusals, timeout_s: float, topic: str | None = None
) -> Any:
    """Look all topics up, or one. If the broker has refused the credentials of ``client``, the error says so.

    Raises:
      KafkaException: no broker answers.
      UnavailableError: no broker can be connected to, with the reason; known at once if that holds for all.
    """
    refusals.forget()
    for limit_s in (min(_FIRST_LOOK_S, timeout_s), timeout_s):
        try:
            return (
                client.list_topics(topic, limit_s)
                if topic is not None
                else client.list_topics(timeout=limit_s)
            )
        except ck.KafkaException as error:
            client.poll(0)  # Calls the callback.
            if refusals.last is not None:
                raise ck.KafkaException(refusals.last) from error
            if refusals.unreachable is not None and (refusals.all_down or limit_s == timeout_s):
                raise UnavailableError(
                    f"Kafka does not answer: {refusals.unreachable}", hint=UNREACHABLE_HINT
                ) from error
            if limit_s == timeout_s or error.args[0].code() not in _SLOW:
                raise
    raise AssertionError("the last look returns or raises")


def _topic_metadata(client: ck.Consumer, refusals: Refusals, topic: str, timeout_s: float) -> Any:
    found = cluster_metadata(client, refusals, timeout_s, topic).topics[topic]
    if found.error is not None:
        raise ck.KafkaException(found.error)
    return found


def open_consumer(
    config: Mapping[str, object], on_error: Callable[[ck.KafkaError], None] | None = None
) -> ck.Consumer:
    """Open a consumer; no connection is made yet. ``on_error`` is called from within its calls.

    Raises:
      OptionError: librdkafka does not take the configuration.
    """
    try:
        # Without this callback librdkafka returns client errors as messages.
        return ck.Consumer(dict(config) | {"error_cb": on_error or _ignore}, logger=_LOG)
    except (ck.KafkaException, TypeError, ValueError) as error:
        cause = error.args[0] if error.args else error
        text = cause.str() if isinstance(cause, ck.KafkaError) else str(cause)
        raise refused_config(text) from error


def open_admin(config: Mapping[str, object]) -> AdminClient:
    """Open a client for queries about topics; no connection is made yet."""
    settings: dict[str, Any] = dict(config) | {"error_cb": _ignore}
    return AdminClient(settings, logger=_LOG)


def open_producer(config: Mapping[str, object], settings: Mapping[str, object]) -> ck.Producer:
    """Open a producer with the settings of a client and its own; no connection is made yet.

    Raises:
      OptionError: librdkafka does not take the configuration.
    """
    shared = {
        name: value for name, value in config.items() if name not in _OF_READING and "fetch" not in name
    }
    given: dict[str, Any] = {**shared, "error_cb": _ignore, **settings}
    try:
        return ck.Producer(given, logger=_LOG)
    except ck.KafkaException as error:
        raise refused_config(error.args[0].str()) from error


def append_message(
    config: Mapping[str, object],
    topic: str,
    partition: int,
    headers: Sequence[tuple[str, bytes]],
    timestamp_ms: int,
    timeout_s: float,
) -> int:
    """Append one message without key and value; return its offset.

    Raises:
      UnavailableError: the broker did not take it.
    """
    delivered: list[tuple[ck.KafkaError | None, ck.Message]] = []
    producer = open_producer(
        config, {"acks": "all", "linger.ms": 0, "delivery.timeout.ms": int(timeout_s * 1000)}
    )
    named: list[tuple[str, str | bytes | None]] = list(headers)
    with kafka_errors(f'topic "{topic}"'):
        producer.produce(
            topic,
            partition=partition,
            headers=named,
            timestamp=timestamp_ms,
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
        producer.flush(timeout_s + 1)
    if not delivered:
        raise UnavailableError(f'topic "{topic}" did not take a message within {timeout_s:g} s')
    refused, message = delivered[0]
    if refused is not None:
        raise UnavailableError(f'topic "{topic}" did not take a message: {refused.str()}')
    return place(message)[1]


def refused_config(text: str) -> OptionError:
    """Return the error for a configuration that librdkafka does not take, in its own words."""
    return OptionError(f"librdkafka refuses its configuration: {text}")


def _ignore(_: ck.KafkaError) -> None:
    """Do nothing: the call that meets the error raises it as well."""


def not_written(error: ck.KafkaError, what: str) -> ConnectorError:
    """Return the connector error for librdkafka's error when writing to ``what``."""
    if error.code() in _GONE:
        return GoneError(f"{what} does not exist", hint="Create it, or correct the option.")
    if error.code() in _DENIED:
        return DeniedError(f"{what} cannot be written: {error.str()}", hint=DENIED_WRITING_HINT)
    return UnavailableError(f"{what} cannot be written: {error.str()}")


def translated(error: ck.KafkaError, what: str) -> ConnectorError:
    """Return the connector error for librdkafka's error about ``what``."""
    if error.code() in _GONE:
        return GoneError(f"{what} does not exist", hint="Create it, or correct the option.")
    if error.code() in _OUT_OF_RANGE:
        return GoneError(f"{what}: the position is not in the log ({error.str()})", hint=AGED_OUT_HINT)
    if error.code() in _DENIED:
        return DeniedError(f"{what} cannot be read: {error.str()}", hint=DENIED_HINT)
    return UnavailableError(f"{what} cannot be read: {error.str()}")


def place(message: ck.Message) -> tuple[int, int]:
    """Return the partition and offset of a message or notice, which those of a topic always have."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


@contextmanager
def kafka_errors(what: str) -> Iterator[None]:
    """Translate librdkafka's exceptions in this block; ``what`` names the object."""
    try:
        yield
    except ck.KafkaException as error:
        raise translated(error.args[0], what) from error


def cluster_line(config: Mapping[str, object], timeout_s: float) -> str:
    """Connect to a cluster; return one line that describes it.

    Raises:
      OptionError, UnavailableError.
    """
    refusals = Refusals()
    consumer = open_consumer(config, refusals)
    servers = config["bootstrap.servers"]
    try:
        with kafka_errors(f'Kafka at "{servers}"'):
            metadata = cluster_metadata(consumer, refusals, timeout_s)
    finally:
        consumer.close()
    return f'Kafka at "{servers}": {len(metadata.brokers)} broker(s), {len(metadata.topics)} topic(s)'
