"""A topic as the sink of an outbox: messages and the outbox's number in one Kafka transaction.

The number of the last message is the offset that a consumer group of the outbox's own commits for partition 0 of
the topic. Kafka makes it visible with the messages of its transaction or not at all. ``begin`` opens a producer
with the outbox's transactional id: Kafka then ends every open transaction of earlier producers and refuses
their further ones, so the number that is read afterwards is final until this producer sends.

After every failure the producer is dropped, and ``begin`` opens another one: there is one way to recover.
See docs/decisions/0010-the-outbox.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import confluent_kafka as ck
from confluent_kafka.admin import ConfigResource

from rowtide_connectors.api import Guarantee, OutgoingMessage
from rowtide_connectors.errors import GoneError, MismatchError, RefusedMessageError, UnavailableError
from rowtide_connectors.kafka.client import (
    Refusals,
    kafka_errors,
    not_written,
    open_admin,
    open_consumer,
    open_producer,
    topic_metadata,
)

TRANSACTION_TIMEOUT_MS = 60_000
"""After this time the broker ends the transaction of a sender that is gone, which holds readers back."""
SEND_TIMEOUT_S = 30.0
"""The longest time for one batch; then the broker counts as down."""
OVERHEAD_BYTES = 4_096
"""The most that a batch and the frames of headers add to one message."""
_REFUSALS = frozenset(
    {
        ck.KafkaError.MSG_SIZE_TOO_LARGE,
        ck.KafkaError.INVALID_MSG_SIZE,
        ck.KafkaError.INVALID_RECORD,
        ck.KafkaError.INVALID_TIMESTAMP,
        ck.KafkaError._UNKNOWN_PARTITION,
    }
)
"""Errors of one message, which are the same at the next attempt."""
_REFUSED_HINT = (
    "The messages after it wait. Change the topic so that it takes the message: its max.message.bytes, "
    "message.timestamp settings, or number of partitions."
)


class KafkaSink:
    """One topic and one outbox; see ``api.MessageSink``. ``config`` is librdkafka's."""

    def __init__(
        self,
        topic: str,
        config: Mapping[str, object],
        sender: str,
        *,
        guarantee: Guarantee,
        max_message_bytes: int,
        timeout_s: float,
    ) -> None:
        self._topic = topic
        self._config = config
        self._sender = f"rowtide-{sender}"
        self._is_exact = guarantee is not Guarantee.AT_LEAST_ONCE
        self._max_batch_bytes = max_message_bytes + OVERHEAD_BYTES
        self._timeout_s = timeout_s
        self._what = f'topic "{topic}"'
        self._producer: ck.Producer | None = None
        self._group: ck.Consumer | None = None
        self._refusals = Refusals()

    def check(self) -> None:
        """Look the topic up, and its limit for messages."""
        with self._errors():
            self._look_up(self._numbers())
            admin = open_admin(self._config)
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
            (asked,) = admin.describe_configs([resource], request_timeout=self._timeout_s).values()
            try:
                limit = int(asked.result(self._timeout_s)["max.message.bytes"].value)
            except (ck.KafkaException, TimeoutError, KeyError):
                return  # The user may not read it: a message that is too large is reported when it is sent.
        if limit < self._max_batch_bytes:
            raise MismatchError(
                f"{self._what} takes messages of at most {limit} bytes, max_message_bytes and "
                f"{OVERHEAD_BYTES} bytes of overhead are {self._max_batch_bytes}",
                hint=f"Set max_message_bytes '{max(limit - OVERHEAD_BYTES, 1)}' in the OPTIONS of the stream, or "
                "raise max.message.bytes of the topic.",
            )

    def begin(self) -> int | None:
        """Open a producer, which ends the transactions of earlier ones, and read the number."""
        self._drop()
        with self._errors():
            numbers = self._numbers()
            self._look_up(numbers)
            producer = self._producer = open_producer(self._config, self._settings())
            if not self._is_exact:
                return None
            producer.init_transactions(SEND_TIMEOUT_S)
            (found,) = numbers.committed([ck.TopicPartition(self._topic, 0)], self._timeout_s)
            if found.error is not None:
                raise ck.KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Send messages and the number in one transaction; without one, wait for all acknowledgements."""
        producer = self._producer
        if producer is None:
            raise UnavailableError(f"{self._what}: the sender has not begun")
        try:
            with self._errors():
                self._send(producer, messages, number)
        except BaseException:
            self._drop()
            raise

    def _send(self, producer: ck.Producer, messages: Sequence[OutgoingMessage], number: int) -> None:
        if self._is_exact:
            producer.begin_transaction()
        refused: list[tuple[OutgoingMessage, ck.KafkaError]] = []
        acknowledged = 0

        def delivered(error: ck.KafkaError | None, message: OutgoingMessage) -> None:
            nonlocal acknowledged
            if error is None:
                acknowledged += 1
            else:
                refused.append((message, error))

        deadline = time.monotonic() + SEND_TIMEOUT_S
        for each in messages:
            self._produce(producer, each, delivered, deadline)
        producer.flush(max(0.0, deadline - time.monotonic()))
        if refused:
            raise self._refusal(refused)
        if acknowledged < len(messages):
            raise UnavailableError(
                f"{self._what} acknowledged {acknowledged} of {len(messages)} messages within {SEND_TIMEOUT_S:g} s"
            )
        if self._is_exact:
            group = self._numbers().consumer_group_metadata()
            place = ck.TopicPartition(self._topic, 0, number)
            producer.send_offsets_to_transaction([place], group, SEND_TIMEOUT_S)
            producer.commit_transaction(SEND_TIMEOUT_S)

    def _produce(
        self, producer: ck.Producer, message: OutgoingMessage, delivered: object, deadline: float
    ) -> None:
        """Hand a message to librdkafka, which reports its fate to ``delivered``."""
        while True:
            try:
                producer.produce(
                    self._topic,
                    value=message.value,
                    key=message.key,
                    partition=-1 if message.partition is None else message.partition,
                    headers=list(message.headers) or None,
                    timestamp=message.timestamp_ms,
                    on_delivery=lambda error, _: delivered(error, message),  # type: ignore[operator]
                )
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"{self._what} took no message within {SEND_TIMEOUT_S:g} s"
                    ) from None
                producer.poll(0.1)
            except ck.KafkaException as error:
                if error.args[0].code() in _REFUSALS:
                    raise self._refusal([(message, error.args[0])]) from error
                raise

    def _refusal(self, refused: Sequence[tuple[OutgoingMessage, ck.KafkaError]]) -> Exception:
        """Return the error for messages that were not taken: the first one that is itself the cause."""
        for message, error in refused:
            if error.code() in _REFUSALS:
                size = len(message.value or b"") + len(message.key or b"")
                return RefusedMessageError(
                    f"{self._what} does not take message {message.number} ({size} bytes, timestamp "
                    f"{message.timestamp_ms}, key {message.key!r:.60}): {error.str()}",
                    number=message.number,
                    hint=_REFUSED_HINT,
                )
        return not_written(refused[0][1], self._what)

    def close(self) -> None:
        """Close the clients."""
        self._drop()
        if self._group is not None:
            self._group.close()
            self._group = None

    def _settings(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "enable.idempotence": True,
            "message.max.bytes": self._max_batch_bytes,
            "message.timeout.ms": int(SEND_TIMEOUT_S * 1000),
            # As Java clients do, so that their messages with the same key are in the same partition.
            "partitioner": "murmur2_random",
        }
        if self._is_exact:
            settings |= {
                "transactional.id": self._sender,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        return settings

    def _numbers(self) -> ck.Consumer:
        """Return the client of the group whose offset is the number. It never joins the group."""
        if self._group is None:
            self._group = open_consumer(dict(self._config) | {"group.id": self._sender}, self._refusals)
        return self._group

    def _look_up(self, client: ck.Consumer) -> None:
        topic = topic_metadata(client, self._refusals, self._topic, self._timeout_s)
        if not topic.partitions:
            raise GoneError(f"{self._what} does not exist", hint="Create it, or correct the option.")

    def _drop(self) -> None:
        """Drop the producer with everything that it has not sent."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with kafka_errors(self._what):
                try:
                    yield
                except ck.KafkaException as error:
                    raise not_written(error.args[0], self._what) from error
        except TimeoutError as error:
            raise UnavailableError(f"{self._what} did not answer in time") from error
        except SystemError as error:
            # The client runs callbacks while an exception of its own is set, such as that another sender took over.
            raise UnavailableError(f"{self._what} cannot be written: {error.__cause__ or error}") from error
