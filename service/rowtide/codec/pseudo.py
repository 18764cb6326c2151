"""The pseudo-columns of messages as columns; ``plan.pseudo`` declares them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rows.column import Column

Headers = Sequence[tuple[str, bytes | None]]


def pseudo_columns(
    names: Sequence[str],
    topic: str,
    partition: int,
    offsets: NDArray[np.int64],
    timestamps: NDArray[np.int64],
    keys: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
) -> tuple[Column, ...]:
    """Return the pseudo-columns called ``names`` of messages of one partition."""
    return tuple(_column(name, topic, partition, offsets, timestamps, keys, headers) for name in names)


def _column(
    name: str,
    topic: str,
    partition: int,
    offsets: NDArray[np.int64],
    timestamps: NDArray[np.int64],
    keys: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
) -> Column:
    kind, count = PSEUDO_COLUMNS[name].type, len(offsets)
    match name:
        case "KAFKA_TOPIC":
            return Column.from_values(kind, [topic] * count)
        case "KAFKA_PARTITION":
            return Column(kind, np.full(count, partition, dtype=kind.dtype))
        case "KAFKA_OFFSET":
            return Column(kind, offsets)
        case "KAFKA_TIMESTAMP":
            return Column(kind, timestamps)
        case "KAFKA_KEY":
            return Column.from_values(kind, list(keys))
        case _:
            shown = [None] * count if headers is None else [headers_text(each) for each in headers]
            return Column.from_values(kind, shown)


def headers_text(headers: Headers | None) -> str | None:
    """Return headers as JSON. A value that is not UTF-8 is ``{"base64": ".."}``. NULL without headers."""
    if not headers:
        return None
    return json.dumps([[name, _value(value)] for name, value in headers], ensure_ascii=False)


def _value(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}
