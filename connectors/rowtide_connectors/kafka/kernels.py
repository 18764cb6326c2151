"""Compiled loops over librdkafka's messages: their public C structure, read by address.

``rd_kafka_message_t`` is part of librdkafka's stable interface (rdkafka.h):
err at 0, partition at 16, payload at 24, len at 32, key at 40, key_len at 48,
offset at 56, all on a 64-bit machine. Functions of the library are passed as addresses, so that the
compiled code can be cached on disk; ``kafka.warm`` does that ahead of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_WORD = ir.IntType(64)


def _load(kind: Any, bits: int) -> Any:
    """Make the function that reads an integer at an address."""

    def load(_typing: Any, address: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))

        return kind(types.uint64), codegen

    return intrinsic(load)


def _call_address(_typing: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
    """Call the C function at an address with three words; one that takes fewer ignores the rest."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_WORD, [_WORD, _WORD, _WORD])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(types.uint64, types.uint64, types.uint64, types.uint64), codegen


_load_int32 = _load(types.int32, 32)
_load_int64 = _load(types.int64, 64)
_call: Any = intrinsic(_call_address)


@njit(cache=True, nogil=True)
def read_fields(
    messages: U64,
    timestamp_of: np.uint64,
    headers_of: np.uint64,
    scratch: np.uint64,
    partitions: NDArray[np.int32],
    offsets: I64,
    timestamps: I64,
    errors: NDArray[np.int32],
    values: U64,
    value_lengths: I64,
    keys: U64,
    key_lengths: I64,
    with_headers: NDArray[np.bool_],
) -> None:
    """Read the fields of the messages at these addresses into columns.

    ``timestamp_of`` and ``headers_of`` are the addresses of the library's functions, ``scratch`` that
    of eight bytes for their second result. All other arrays are filled: ``values`` and ``keys`` with
    where the bytes are, 0 for null.
    """
    for i in range(len(messages)):
        message = messages[i]
        errors[i] = _load_int32(message)
        partitions[i] = _load_int32(message + np.uint64(16))
        offsets[i] = _load_int64(message + np.uint64(56))
        if errors[i] != 0:
            # The payload of an error notice is its text.
            values[i] = 0
            value_lengths[i] = 0
            keys[i] = 0
            key_lengths[i] = 0
            timestamps[i] = -1
            with_headers[i] = False
            continue
        values[i] = np.uint64(_load_int64(message + np.uint64(24)))
        value_lengths[i] = _load_int64(message + np.uint64(32))
        keys[i] = np.uint64(_load_int64(message + np.uint64(40)))
        key_lengths[i] = _load_int64(message + np.uint64(48))
        timestamps[i] = _call(timestamp_of, message, scratch, np.uint64(0))
        # The function returns an int32, 0 for success; the upper half of the word is undefined.
        with_headers[i] = np.int32(_call(headers_of, message, scratch, np.uint64(0))) == 0


@njit(cache=True, nogil=True)
def copy_bytes(sources: U64, lengths: I64, memcpy: np.uint64, target: np.uint64) -> None:
    """Copy the bytes at ``sources`` one after the other to ``target``."""
    for i in range(len(sources)):
        if lengths[i] > 0:
            _call(memcpy, target, sources[i], np.uint64(lengths[i]))
            target += np.uint64(lengths[i])


@njit(cache=True, nogil=True)
def destroy(messages: U64, destroy_message: np.uint64) -> None:
    """Release messages to librdkafka."""
    for i in range(len(messages)):
        _call(destroy_message, messages[i], np.uint64(0), np.uint64(0))
