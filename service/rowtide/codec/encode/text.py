"""Rows to CSV and to raw messages, and values as text: what CAST to VARCHAR gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rowtide.codec.encode.contract import refuse
from rowtide.codec.options import Declared
from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.types import VARCHAR, Field, RowType

_QUOTED = re.compile(r'[",\r\n]')


def text_writer(declared: Declared, field: Field) -> Callable[[object], str]:
    """Return the function that makes text of a column's value, as CAST does.

    Raises:
      StatementError: the column has bytes, which are not text.
    """
    if field.type.is_string:
        return str
    if field.type.is_binary:
        raise StatementError(
            f'column "{field.name}" of {declared.what} is {field.type}, which cannot be written as text',
            hint="Use format 'JSON', which writes bytes as base64, or format 'RAW'.",
        )
    cast = compile_row(Call("CAST", (FieldRef(0, field.type),), VARCHAR))

    def write(value: object) -> str:
        try:
            return str(cast((value,), 0))
        except RejectedRowError as error:
            refuse(f'column "{field.name}": {error.message}')

    return write


class CsvEncoder:
    """Encodes each row as one record (RFC 4180), without a line end; NULL is an empty field."""

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._writers = [text_writer(declared, field) for field in row_type]

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        return ",".join(
            "" if value is None else _field(write(value))
            for value, write in zip(row, self._writers, strict=True)
        ).encode()


def _field(text: str) -> str:
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


class RawEncoder:
    """Writes the one column of the value, text in UTF-8 or bytes, as the whole message.

    Raises:
      StatementError: the value has more than one column, or one of neither text nor bytes.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        fields = tuple(row_type)
        if len(fields) != 1 or not (fields[0].type.is_text or fields[0].type.is_binary):
            raise StatementError(
                f"{declared.what} has format RAW: besides the columns of key, headers and partition it has one "
                "column, of text or bytes",
                hint="Such as (message VARCHAR), or (message VARBINARY(100000)).",
            )
        self._name = fields[0].name

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        (value,) = row
        if value is None:
            refuse(f'column "{self._name}" is NULL, and format RAW cannot write NULL')
        return value if isinstance(value, bytes) else str(value).encode()
