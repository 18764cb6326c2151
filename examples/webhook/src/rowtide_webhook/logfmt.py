r"""The format LOGFMT: pairs of name and text, such as ``level=error text="disk is full"``.

A text in double quotes may have spaces, and ``\"`` and ``\\`` for a quote and a backslash. Names are those of the
columns, in any case; others are ignored, and of two equal names the last one counts. A column without a pair, or with
``name=``, is NULL; ``name=""`` is the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rowtide.codec.api import (
    Declared,
    Decoded,
    Format,
    Reason,
    RejectedRowError,
    Row,
    RowType,
    converter,
    decode_each,
    text_of,
    text_writer,
)

_PAIR = re.compile(r'\s*([^\s="]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?=\s|\Z)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r'[^\s"\\]+')


class LogfmtDecoder:
    """Decodes the messages of one foreign stream; see ``rowtide.codec.contract.Decoder``."""

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        self._converters = [converter(field.name, field.type) for field in declared.row_type]

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        found = pairs_of(text_of(value))
        row: list[object] = []
        for field, convert in zip(self._row_type, self._converters, strict=True):
            text = found.get(field.name.upper())
            if text is None and not field.nullable:
                raise RejectedRowError(Reason.MISSING_FIELD, f'field "{field.name}" is missing')
            row.append(None if text is None else convert(text))
        return tuple(row)


def pairs_of(text: str) -> dict[str, str | None]:
    """Return the texts of a message by name in capitals.

    Raises:
      RejectedRowError: DECODE, the message is not made of pairs.
    """
    found: dict[str, str | None] = {}
    at, text = 0, text.rstrip()
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise RejectedRowError(Reason.DECODE, f"the text at character {at} is not a pair name=text")
        name, quoted, plain = pair.groups()
        found[name.upper()] = plain or None if quoted is None else _ESCAPED.sub(r"\1", quoted)
        at = pair.end()
    return found


class LogfmtEncoder:
    """Encodes the rows of one foreign stream; a column that is NULL has no pair."""

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._names = [field.name.lower() for field in row_type]
        self._writers = [text_writer(declared, field) for field in row_type]

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the message of a row."""
        given = zip(self._names, self._writers, row, strict=True)
        pairs = [f"{name}={_quoted(write(value))}" for name, write, value in given if value is not None]
        return " ".join(pairs).encode()


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FORMAT = Format(LogfmtDecoder, (), 'pairs such as level=error text="disk is full"', LogfmtEncoder)
