"""Rows to messages of pairs (docs/sql/streams.md#key-value)."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.codec.encode.json import main_spelling
from rowtide.codec.encode.text import encoded, text_writer
from rowtide.codec.key_value import BLANKS, notation_of
from rowtide.codec.options import Declared
from rowtide.rows.types import RowType


class KeyValueEncoder:
    """Encodes each row as pairs, without a line end; NULL is left out.

    Raises:
      StatementError: a column has bytes, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        notation = notation_of(declared)
        self._separator = notation.pairs
        self._quote = notation.quote
        self._encoding = notation.encoding
        self._prefixes = [
            self._shown(main_spelling(field.name), notation.pairs, notation.keys) + notation.keys
            for field in row_type
        ]
        self._writers = [text_writer(declared, field) for field in row_type]

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        text = self._separator.join(
            prefix + self._shown(write(value), self._separator)
            for prefix, write, value in zip(self._prefixes, self._writers, row, strict=True)
            if value is not None
        )
        return encoded(text, self._encoding)

    def _shown(self, text: str, *separators: str) -> str:
        """Return text as it is, or in quotes if it would be read as something else."""
        is_plain = (
            text and text == text.strip(BLANKS) and not any(each in text for each in (self._quote, *"\r\n"))
        )
        # Its last characters and the separator after it may be one, too.
        if is_plain and all((text + each).index(each) == len(text) for each in separators):
            return text
        return self._quote + text.replace(self._quote, self._quote * 2) + self._quote
