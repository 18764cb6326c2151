"""Shared parts of decoders that process one message at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.errors import Reason, RejectedRowError, rejection_of
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType

_Given = TypeVar("_Given")


def decode_each(
    values: Sequence[_Given | None], row_type: RowType, decode: Callable[[_Given], Row]
) -> Decoded:
    """Decode messages with ``decode``, which raises RejectedRowError for one that does not fit.

    A message for which it raises another exception is rejected, too (DECODE).
    """
    rows: list[Row] = []
    accepted: list[int] = []
    faults: list[DecodeFault] = []
    for index, value in enumerate(values):
        try:
            if value is None:
                raise RejectedRowError(Reason.TOMBSTONE, "the message has no value")
            rows.append(decode(value))
            accepted.append(index)
        except Exception as error:  # noqa: BLE001 - no message may stop a pipeline
            rejection = rejection_of(error, Reason.DECODE)
            faults.append(DecodeFault(index, rejection.reason, rejection.message))
    columns = tuple(
        Column.from_values(field.type, (row[index] for row in rows)) for index, field in enumerate(row_type)
    )
    return Decoded(columns, np.array(accepted, dtype=np.int64), tuple(faults))


def text_of(value: bytes) -> str:
    """Return a message's text.

    Raises:
      RejectedRowError: DECODE, it is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RejectedRowError(Reason.DECODE, f"text is not UTF-8: {error.reason}") from error


def check_fits(name: str, given: str | bytes, most: int | None) -> None:
    """Reject a value longer than its column, and text with a NUL character: no database stores it.

    Raises:
      RejectedRowError: TYPE.
    """
    if isinstance(given, str) and "\0" in given:
        raise RejectedRowError(Reason.TYPE, f'field "{name}" has a NUL character')
    if most is not None and len(given) > most:
        message = f'field "{name}" has length {len(given)}, at most {most} fit'
        raise RejectedRowError(Reason.TYPE, message)
