"""A consumer on librdkafka's own interface: messages become columns in compiled code.

confluent_kafka makes one Python object per message. Reading its fields costs more than all of
librdkafka's work, and holds Python's lock (``rowtide bench kafka-ingest`` compares;
benchmarks/README.md has figures). So this opens a consumer on the same shared library that
confluent_kafka has loaded, by its public C interface, and reads whole batches. If the library is not
found or is not the one that confluent_kafka uses, ``library`` returns the reason, and
``plain.PlainConsumer`` is used.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

import confluent_kafka as ck
import numpy as np
from numpy.typing import NDArray

from rowtide_connectors.errors import ConnectorError, OptionError
from rowtide_connectors.kafka.client import refused_config, translated
from rowtide_connectors.kafka.taken import Headers, TakenMessages

_CONSUMER = 1
"""rd_kafka_type_t."""
_ERROR_TEXT_BYTES = 512

_ErrorCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)

_FUNCTIONS = {
    "rd_kafka_version_str": (c_char_p, []),
    "rd_kafka_err2str": (c_char_p, [c_int]),
    "rd_kafka_last_error": (c_int, []),
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_destroy": (None, [c_void_p]),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_conf_set_error_cb": (None, [c_void_p, _ErrorCallback]),
    "rd_kafka_conf_set_log_cb": (None, [c_void_p, c_void_p]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_poll_set_consumer": (c_int, [c_void_p]),
    "rd_kafka_queue_get_consumer": (c_void_p, [c_void_p]),
    "rd_kafka_queue_destroy": (None, [c_void_p]),
    "rd_kafka_consumer_close": (c_int, [c_void_p]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_topic_partition_list_new": (c_void_p, [c_int]),
    "rd_kafka_topic_partition_list_add": (c_void_p, [c_void_p, c_char_p, c_int32]),
    "rd_kafka_topic_partition_list_set_offset": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_topic_partition_list_destroy": (None, [c_void_p]),
    "rd_kafka_assign": (c_int, [c_void_p, c_void_p]),
    "rd_kafka_pause_partitions": (c_int, [c_void_p, c_void_p]),
    "rd_kafka_resume_partitions": (c_int, [c_void_p, c_void_p]),
    "rd_kafka_metadata": (c_int, [c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int]),
    "rd_kafka_metadata_destroy": (None, [c_void_p]),
    "rd_kafka_consume_batch_queue": (c_ssize_t, [c_void_p, c_int, c_void_p, c_size_t]),
    "rd_kafka_message_destroy": (None, [c_void_p]),
    "rd_kafka_message_errstr": (c_char_p, [c_void_p]),
    "rd_kafka_message_timestamp": (c_int64, [c_void_p, c_void_p]),
    "rd_kafka_message_headers": (c_int, [c_void_p, POINTER(c_void_p)]),
    "rd_kafka_header_get_all": (
        c_int,
        [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t)],
    ),
}


class Library:
    """librdkafka's functions, and the addresses of those that compiled code calls."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.version: str = self.lib.rd_kafka_version_str().decode()
        self.timestamp_of = self._address("rd_kafka_message_timestamp")
        self.headers_of = self._address("rd_kafka_message_headers")
        self.destroy_message = self._address("rd_kafka_message_destroy")
        self.memcpy = np.uint64(ctypes.cast(ctypes.CDLL(None).memcpy, c_void_p).value or 0)

    def _address(self, name: str) -> np.uint64:
        return np.uint64(ctypes.cast(getattr(self.lib, name), c_void_p).value or 0)

    def error_text(self, code: int) -> str:
        """Return librdkafka's words for an error code."""
        text: bytes = self.lib.rd_kafka_err2str(code)
        return text.decode()


@functools.cache
def library() -> Library | str:
    """Return the librdkafka that confluent_kafka has loaded, or why it cannot be used; cached."""
    if ctypes.sizeof(c_void_p) != 8 or sys.platform == "win32":
        return "only 64-bit Unix machines are known to it"
    if importlib.util.find_spec("numba") is None:
        return "numba is missing"
    spec = importlib.util.find_spec("confluent_kafka")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    bundled = [
        *folder.parent.glob("confluent_kafka.libs/librdkafka*.so*"),
        *folder.glob(".dylibs/librdkafka*"),
    ]
    for path in bundled:
        try:
            found = Library(str(path))
        except (OSError, AttributeError) as error:
            return f"{path.name} cannot be used: {error}"
        if found.version == ck.libversion()[0]:
            return found
    return "confluent_kafka has not brought its own librdkafka"


class NativeConsumer:
    """See ``taken.Consumer``."""

    def __init__(
        self, found: Library, topic: str, config: Mapping[str, object], positions: Mapping[int, int]
    ) -> None:
        self._library = found
        self._lib = found.lib
        self._topic = topic
        self.trouble: str | None = None
        # librdkafka stores only the address, so the callback must live as long as the consumer.
        self._on_error = _ErrorCallback(self._note_trouble)
        self._client = self._open(config)
        self._lib.rd_kafka_poll_set_consumer(self._client)
        self._queue = self._lib.rd_kafka_queue_get_consumer(self._client)
        self._scratch = np.zeros(1, dtype=np.int64)
        code = self._with_partitions(self._lib.rd_kafka_assign, positions)
        if code != 0:
            self.close()
            raise translated(ck.KafkaError(code, found.error_text(code)), f'topic "{topic}"')

    def take(self, max_messages: int, timeout_s: float) -> TakenMessages | None:
        """Take the available messages in one batch."""
        messages = np.empty(max_messages, dtype=np.uint64)
        # librdkafka waits until it has all n requested messages, so take the available ones or wait for one.
        count = self._consume(messages, 0)
        if count == 0 and timeout_s > 0:
            count = self._consume(messages[:1], timeout_s)
            if count == 1 and max_messages > 1:
                count += self._consume(messages[1:], 0)
        if count == 0:
            return None
        from rowtide_connectors.kafka.kernels import destroy

        messages = messages[:count]
        try:
            return self._columns(messages)
        finally:
            destroy(messages, self._library.destroy_message)

    def is_up(self, timeout_s: float) -> bool:
        """Ask for the metadata of the topics that the client knows."""
        metadata = c_void_p()
        code: int = self._lib.rd_kafka_metadata(self._client, 0, None, byref(metadata), int(timeout_s * 1000))
        if code != 0:
            return False
        self._lib.rd_kafka_metadata_destroy(metadata)
        return True

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching."""
        self._with_partitions(self._lib.rd_kafka_pause_partitions, dict.fromkeys(partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again."""
        self._with_partitions(self._lib.rd_kafka_resume_partitions, dict.fromkeys(partitions))

    def close(self) -> None:
        """Leave the broker."""
        self._lib.rd_kafka_queue_destroy(self._queue)
        self._lib.rd_kafka_consumer_close(self._client)
        self._lib.rd_kafka_destroy(self._client)

    def _open(self, config: Mapping[str, object]) -> int:
        conf = self._lib.rd_kafka_conf_new()
        text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        try:
            for name, value in config.items():
                written = str(value).lower() if isinstance(value, bool) else str(value)
                code = self._lib.rd_kafka_conf_set(conf, name.encode(), written.encode(), text, len(text))
                if code != 0:
                    raise refused_config(text.value.decode())
            self._lib.rd_kafka_conf_set_error_cb(conf, self._on_error)
            # Otherwise it logs to standard error; it reports relevant events as errors, too.
            self._lib.rd_kafka_conf_set_log_cb(conf, None)
            client: int | None = self._lib.rd_kafka_new(_CONSUMER, conf, text, len(text))
            if client is None:
                raise refused_config(text.value.decode())
        except OptionError:
            self._lib.rd_kafka_conf_destroy(conf)
            raise
        return client

    def _with_partitions(self, call: Callable[..., int], offsets: Mapping[int, int | None]) -> int:
        """Call a function of the client with a list of partitions and offsets; return its error code."""
        topic = self._topic.encode()
        listed = self._lib.rd_kafka_topic_partition_list_new(len(offsets))
        try:
            for partition, offset in offsets.items():
                self._lib.rd_kafka_topic_partition_list_add(listed, topic, partition)
                if offset is not None:
                    self._lib.rd_kafka_topic_partition_list_set_offset(listed, topic, partition, offset)
            code: int = call(self._client, listed)
            return code
        finally:
            self._lib.rd_kafka_topic_partition_list_destroy(listed)

    def _note_trouble(self, _client: int, code: int, reason: bytes | None, _opaque: int) -> None:
        # librdkafka calls this within calls of this thread, and continues to retry.
        self.trouble = f"{self._library.error_text(code)}: {(reason or b'').decode(errors='replace')}"

    def _consume(self, into: NDArray[np.uint64], timeout_s: float) -> int:
        count: int = self._lib.rd_kafka_consume_batch_queue(
            self._queue, int(timeout_s * 1000), into.ctypes.data, len(into)
        )
        if count < 0:
            code = self._lib.rd_kafka_last_error()
            raise translated(ck.KafkaError(code, self._library.error_text(code)), f'topic "{self._topic}"')
        return count

    def _columns(self, messages: NDArray[np.uint64]) -> TakenMessages:
        from rowtide_connectors.kafka.kernels import read_fields

        count = len(messages)
        partitions, errors = np.empty((2, count), dtype=np.int32)
        offsets, timestamps, value_lengths, key_lengths = np.empty((4, count), dtype=np.int64)
        values, keys = np.empty((2, count), dtype=np.uint64)
        with_headers = np.empty(count, dtype=np.bool_)
        read_fields(
            messages,
            self._library.timestamp_of,
            self._library.headers_of,
            np.uint64(self._scratch.ctypes.data),
            partitions,
            offsets,
            timestamps,
            errors,
            values,
            value_lengths,
            keys,
            key_lengths,
            with_headers,
        )
        ends: dict[int, int] = {}
        error: ConnectorError | None = None
        if errors.any():
            for index in np.flatnonzero(errors).tolist():
                if errors[index] == ck.KafkaError._PARTITION_EOF:
                    ends[int(partitions[index])] = int(offsets[index])
                else:
                    error = self._error(int(messages[index]), int(errors[index]), int(partitions[index]))
            kept = errors == 0
            messages, partitions, offsets, timestamps = (
                column[kept] for column in (messages, partitions, offsets, timestamps)
            )
            values, value_lengths, keys, key_lengths = (
                column[kept] for column in (values, value_lengths, keys, key_lengths)
            )
            with_headers = with_headers[kept]
        return TakenMessages(
            partitions,
            offsets,
            timestamps,
            self._bytes(keys, key_lengths),
            self._bytes(values, value_lengths),
            self._headers(messages, with_headers) if with_headers.any() else None,
            ends,
            error,
        )

    def _bytes(self, addresses: NDArray[np.uint64], lengths: NDArray[np.int64]) -> Sequence[bytes | None]:
        from rowtide_connectors.kafka.kernels import copy_bytes

        if not addresses.any():
            return [None] * len(addresses)
        whole = np.empty(int(lengths.sum()), dtype=np.uint8)
        copy_bytes(addresses, lengths, self._library.memcpy, np.uint64(whole.ctypes.data))
        content = whole.tobytes()
        stops = np.cumsum(lengths)
        found: list[bytes | None] = [
            content[start:stop]
            for start, stop in zip((stops - lengths).tolist(), stops.tolist(), strict=True)
        ]
        for index in np.flatnonzero(addresses == 0).tolist():
            found[index] = None
        return found

    def _headers(
        self, messages: NDArray[np.uint64], with_headers: NDArray[np.bool_]
    ) -> Sequence[Headers | None]:
        found: list[Headers | None] = [None] * len(messages)
        for index in np.flatnonzero(with_headers).tolist():
            found[index] = self._headers_of(int(messages[index]))
        return found

    def _headers_of(self, message: int) -> Headers:
        listed, name, value, size = c_void_p(), c_char_p(), c_void_p(), c_size_t()
        self._lib.rd_kafka_message_headers(message, byref(listed))
        found: list[tuple[str, bytes]] = []
        while (
            self._lib.rd_kafka_header_get_all(listed, len(found), byref(name), byref(value), byref(size)) == 0
        ):
            # Return a missing value as an empty one: no caller distinguishes them.
            content = ctypes.string_at(value.value, size.value) if value.value else b""
            found.append(((name.value or b"").decode("utf-8", "replace"), content))
        return found

    def _error(self, message: int, code: int, partition: int) -> ConnectorError:
        text = self._lib.rd_kafka_message_errstr(message) or self._library.error_text(code).encode()
        error = ck.KafkaError(code, text.decode(errors="replace"))
        return translated(error, f'topic "{self._topic}" partition {partition}')
