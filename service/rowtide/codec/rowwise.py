"""Shared parts of decoders that process one message at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.codec.format_options import ENCODING
from rowtide.codec.options import Declared
from rowtide.errors import Reason, RejectedRowError, rejection_of
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.types import Field, RowType

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


def text_of(value: bytes, encoding: str = "UTF-8") -> str:
    """Return a message's text; ``encoding`` is one that ``encoding_of`` returned.

    Raises:
      RejectedRowError: DECODE, it does not have this encoding.
    """
    try:
        return value.decode(encoding)
    except UnicodeError as error:
        why = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise RejectedRowError(Reason.DECODE, f"text is not {encoding}: {why}") from error


def encoding_of(declared: Declared) -> str:
    """Return the character encoding that a stream declares.

    Raises:
      FormatOptionError: it does not exist, or is not one of characters.
    """
    name = declared.options.get(ENCODING, "UTF-8")
    try:
        "".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise declared.error(
            ENCODING,
            f'"{name}" is not a character encoding',
            hint="Write one such as UTF-8, ISO-8859-1, windows-1252 or UTF-16.",
        ) from error
    return name


def raw_encoding(declared: Declared, field: Field) -> str:
    """Return the character encoding of raw messages.

    Raises:
      FormatOptionError: it does not exist, or the column has bytes.
    """
    if ENCODING in declared.options and not field.type.is_text:
        raise declared.error(ENCODING, f'column "{field.name}" is {field.type}, not text')
    return encoding_of(declared)


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
