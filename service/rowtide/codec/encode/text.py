"""Rows to CSV and to raw messages, and values as text: what CAST to VARCHAR gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.codec.csv import csv_notation
from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import main_spelling
from rowtide.codec.format_options import FIELDS, HEADER
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import raw_encoding
from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.types import VARCHAR, Field, RowType


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


def encoded(text: str, encoding: str) -> bytes:
    """Return the bytes of a message.

    Raises:
      RejectedRowError: CONSTRAINT, the encoding lacks a character.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        refuse(f"character U+{ord(error.object[error.start]):04X} is not one of {encoding}")
    except UnicodeError as error:
        refuse(f"the text cannot be written as {encoding}: {error}")


class CsvEncoder:
    """Encodes each row as one record (RFC 4180), without a line end at the end.

    Raises:
      StatementError: a column has bytes, a field has no column, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._notation = csv_notation(declared)
        self._writers = [(field.name, text_writer(declared, field)) for field in row_type]
        names = [folded(field.name) for field in row_type]
        self._order = list(range(len(names)))
        if self._notation.fields is not None:
            if sorted(self._notation.fields) != sorted(names):
                raise declared.error(
                    FIELDS, "they are not the columns of the value", hint="Name each of them once."
                )
            self._order = [names.index(name) for name in self._notation.fields]
        self._header = ""
        if self._notation.header:
            shown = [self._shown(field.name, main_spelling(field.name)) for field in row_type]
            self._header = self._notation.separator.join(shown) + "\n"
            if self._header.count("\n") > 1:
                raise declared.error(HEADER, "the name of a column has a line end")

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        fields = []
        for at in self._order:
            name, write = self._writers[at]
            fields.append(self._notation.null_text if row[at] is None else self._shown(name, write(row[at])))
        return encoded(self._header + self._notation.separator.join(fields), self._notation.encoding)

    def _shown(self, name: str, text: str) -> str:
        """Return text as it is, or in quotes or with escapes if it would be read as something else."""
        notation = self._notation
        special = {*notation.quote, *notation.escape, *"\r\n"}
        # Its last characters and the separator after it may be one, too.
        is_plain = (text + notation.separator).index(notation.separator) == len(text)
        is_plain = is_plain and not special & set(text) and text == text.strip(notation.blanks)
        if text and is_plain and text != notation.null_text:
            return text
        if notation.quote:
            if notation.escape:
                text = text.replace(notation.escape, notation.escape * 2)
            return notation.quote + text.replace(notation.quote, notation.quote * 2) + notation.quote
        return self._without_quotes(name, text)

    def _without_quotes(self, name: str, text: str) -> str:
        """Return text with escapes; refuse it if it would still be read as something else."""
        notation = self._notation
        shown = text
        if notation.escape:
            special = {notation.escape, *notation.separator, *notation.blanks}
            shown = "".join(notation.escape + each if each in special else each for each in text)
            if text and text == notation.null_text:
                shown = notation.escape + text
            reads_back = True
        else:
            has_separator = notation.separator in text + notation.separator[:-1]
            reads_back = not has_separator and text == text.strip(notation.blanks)
        if shown == notation.null_text or not reads_back or set("\r\n") & set(text):
            refuse(f'column "{name}" has text that CSV without quotes cannot carry')
        return shown


class RawEncoder:
    """Writes the one column of the value, text or bytes, as the whole message.

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
        self._encoding = raw_encoding(declared, fields[0])

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        (value,) = row
        if value is None:
            refuse(f'column "{self._name}" is NULL, and format RAW cannot write NULL')
        return value if isinstance(value, bytes) else encoded(str(value), self._encoding)
