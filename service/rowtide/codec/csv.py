"""CSV messages to columns: one message is one record (RFC 4180).

Fields are in the order of the columns, separated by commas. A field in double
quotes may contain commas, line ends and doubled quotes. An empty field is NULL,
or MISSING_FIELD if the column is NOT NULL; ``""`` is the empty text. CAST
converts a field to the type of its column. If it fails, or if text is too long,
the message is rejected (TYPE). A record with more or fewer fields, or with
unmatched quotes, is DECODE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rowtide.codec.contract import Decoded
from rowtide.codec.rowwise import check_fits, decode_each, text_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import Row
from rowtide.rows.types import VARCHAR, RowType, Type

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|\Z)')
"""A field in quotes or without, and the comma or the end after it."""


class CsvDecoder:
    """Decodes the CSV messages of one foreign stream; see ``codec.contract``."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._converters = [converter(field.name, field.type) for field in row_type]

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        texts = list(_fields(text_of(value).removesuffix("\n").removesuffix("\r")))
        if len(texts) != len(self._row_type):
            raise RejectedRowError(
                Reason.DECODE, f"the record has {len(texts)} fields, not {len(self._row_type)}"
            )
        row: list[object] = []
        for field, convert, text in zip(self._row_type, self._converters, texts, strict=True):
            if text is None and not field.nullable:
                raise RejectedRowError(Reason.MISSING_FIELD, f'field "{field.name}" is empty')
            row.append(None if text is None else convert(text))
        return tuple(row)


def _fields(text: str) -> Iterator[str | None]:
    """Yield the fields of a record, None for one that is empty.

    Raises:
      RejectedRowError: DECODE, a quote does not match.
    """
    at, more = 0, True
    while more:
        found = _FIELD.match(text, at)
        if found is None:
            raise RejectedRowError(Reason.DECODE, f"a quote does not match (character {at})")
        quoted, plain, end = found.groups()
        yield plain or None if quoted is None else quoted.replace('""', '"')
        at, more = found.end(), end == ","


def converter(name: str, of: Type) -> Callable[[str], object]:
    """Return the function that makes a value of a field's text; it raises RejectedRowError (TYPE)."""
    if of.is_text:

        def same(text: str) -> object:
            check_fits(name, text, of.precision)
            return text

        return same
    evaluate = compile_row(Call("CAST", (FieldRef(0, VARCHAR),), of))

    def converted(text: str) -> object:
        try:
            return evaluate((text,), 0)
        except RejectedRowError as error:
            raise RejectedRowError(Reason.TYPE, f'field "{name}": {error.message}') from error

    return converted
