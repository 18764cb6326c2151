"""Columns of values as literals of MySQL and MariaDB, in statements of many rows.

PyMySQL writes values into the text of a statement one by one. Whole columns are converted here instead, and the
rows are packed into statements that the server accepts (``max_allowed_packet``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rowtide_connectors.rdbms.dialect import PhysicalColumns
from rowtide_connectors.rdbms.failures import RowDataError
from rowtide_connectors.rdbms.sql_type import SqlType

STATEMENT_CHARACTERS = 1 << 20
"""Larger statements are not faster, and smaller ones need more round trips."""

_NULL = "NULL"
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\x00": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})
_DAY_MS = 86_400_000


def row_literals(columns: PhysicalColumns) -> list[str]:
    """Return each row as literals between commas.

    Raises:
      RowDataError: a value has no literal.
    """
    written = []
    for column, values in columns:
        try:
            written.append(column_literals(column.type, values))
        except (OverflowError, ValueError) as error:
            raise RowDataError(f'column "{column.name}": {error}') from error
    return list(map(",".join, zip(*written, strict=True)))


def packed(rows: Sequence[str], limit_bytes: int) -> Iterator[Sequence[str]]:
    """Cut rows into statements of about ``STATEMENT_CHARACTERS``.

    Raises:
      RowDataError: a row is larger than ``limit_bytes``, or is not Unicode.
    """
    start = size = 0
    for index, row in enumerate(rows):
        if size and size + len(row) > STATEMENT_CHARACTERS:
            yield rows[start:index]
            start, size = index, 0
        size += len(row)
        # A character has at most four bytes.
        if len(row) * 4 > limit_bytes and len(row.encode("utf-8", "replace")) > limit_bytes:
            raise RowDataError(
                f"the row is larger than max_allowed_packet of the server: {limit_bytes} bytes"
            )
    if size:
        yield rows[start:]


def column_literals(sql_type: SqlType, values: Sequence[Any]) -> list[str]:
    """Return the literals of a column's values.

    Raises:
      ValueError: a value has none.
    """
    match sql_type.name:
        case "BOOLEAN":
            return _each(values, lambda value: "1" if value else "0")
        case "REAL" | "DOUBLE":
            return _each(values, _double)
        case "DECIMAL":
            return _each(values, lambda value: format(value, "f"))
        case "CHAR" | "VARCHAR" | "UUID" | "JSON" | "ARRAY":
            return _each(values, _text)
        case "BINARY" | "VARBINARY":
            return _each(values, lambda value: f"x'{value.hex()}'")
        case "DATE":
            return _times(values, "D")
        case "TIMESTAMP" | "TIMESTAMP WITH TIME ZONE":
            return _times(values, "ms")
        case "TIME":
            days = [None if value is None else value % _DAY_MS for value in values]
            return [text if text == _NULL else f"'{text[12:]}" for text in _times(days, "ms")]
        case _:
            return _each(values, str)


def _each(values: Sequence[Any], write: Callable[[Any], str]) -> list[str]:
    if None in values:
        return [_NULL if value is None else write(value) for value in values]
    return list(map(write, values))


def _double(value: float) -> str:
    if value - value != 0:
        raise ValueError(f"{value} is not a finite number, and the database stores no other")
    text = repr(float(value))
    # Without an exponent the literal is a decimal.
    return text if "e" in text else f"{text}e0"


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("the text has a lone surrogate, which is not Unicode text") from error
    return f"'{value.translate(_ESCAPES)}'"


def _times(values: Sequence[Any], unit: str) -> list[str]:
    numbers = np.fromiter((0 if value is None else value for value in values), np.int64, len(values))
    texts = np.datetime_as_string(numbers.astype(f"datetime64[{unit}]")).tolist()
    return [_NULL if value is None else f"'{text}'" for value, text in zip(values, texts, strict=True)]
