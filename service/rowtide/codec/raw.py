"""Raw messages: the one column of the stream holds the whole message, as text or as bytes."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.codec.contract import Decoded
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import check_fits, decode_each, raw_encoding, text_of
from rowtide.errors import StatementError
from rowtide.rows.rowop import Row


class RawDecoder:
    """Decodes nothing; see ``codec.contract``.

    Raises:
      StatementError: the stream has more than one column, or a column of neither text nor bytes.
    """

    def __init__(self, declared: Declared) -> None:
        (field, *others) = declared.row_type
        if others or not (field.type.is_text or field.type.is_binary):
            raise StatementError(
                f'foreign stream "{declared.relation}" has format RAW: it has one column, of text or bytes',
                hint="Such as (message VARCHAR), or (message VARBINARY(100000)).",
            )
        self._encoding = raw_encoding(declared, field)
        self._row_type = declared.row_type
        self._field = field

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        given = text_of(value, self._encoding) if self._field.type.is_text else value
        check_fits(self._field.name, given, self._field.type.precision)
        return (given,)
