"""Decode BSON messages (docs/sql/streams.md#bson): one document each, with the columns and paths of JSON."""

from __future__ import annotations

from collections.abc import Sequence

import bson

from rowtide.codec.bson.values import OPTIONS, from_bson
from rowtide.codec.contract import Decoded
from rowtide.codec.options import Declared
from rowtide.codec.records import RecordRows
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.rowop import Row


def document_of(message: bytes) -> dict[str, object]:
    """Return the document of a message.

    Raises:
      RejectedRowError: DECODE, it is not one document of BSON.
    """
    try:
        return bson.decode(message, OPTIONS)
    except Exception as error:  # damaged bytes may raise any exception
        text = str(error) or type(error).__name__
        raise RejectedRowError(Reason.DECODE, f"the message is not BSON: {text[:200]}") from error


class BsonDecoder:
    """Decodes the messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: a column's type cannot be read, or one of its options is wrong.
    """

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        self._rows = RecordRows(declared, declared.row_type, from_bson)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        return self._rows.row(document_of(value))
