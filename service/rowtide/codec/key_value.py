"""Messages of pairs to columns, such as ``level=info,text="a, b"`` (docs/sql/streams.md#key-value).

Names match columns as in JSON, values are converted as in CSV. Both may be in quotes, a quote inside doubled. Unknown
names are ignored, and of a repeated name the last pair counts. An absent pair, or one without a value, is NULL, or
MISSING_FIELD if the column is NOT NULL; ``""`` is the empty text. Text that is not a pair is DECODE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.codec.contract import Decoded
from rowtide.codec.csv import converter
from rowtide.codec.format_options import KEY_SEPARATOR, PAIR_SEPARATOR, QUOTE
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import decode_each, encoding_of, text_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.rowop import Row

_DEFAULTS = {PAIR_SEPARATOR: ",", KEY_SEPARATOR: "=", QUOTE: '"'}
_ESCAPES = {r"\t": "\t", r"\n": "\n"}
BLANKS = " \t"
"""Ignored around names and values, unless they are in quotes."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How a stream writes pairs: what separates them, what separates name and value, the quote, and the encoding."""

    pairs: str
    keys: str
    quote: str
    encoding: str


def notation_of(declared: Declared) -> Notation:
    """Return the notation that the options of a stream declare.

    Raises:
      FormatOptionError: a separator is empty or part of another one, or the quote is not one character.
    """
    given = {name: declared.options.get(name, default) for name, default in _DEFAULTS.items()}
    found = {name: _ESCAPES.get(text, text) for name, text in given.items()}
    for name, text in found.items():
        if not text:
            raise declared.error(name, "it is empty", hint=f"Write {name} '{_DEFAULTS[name]}'.")
        for other, taken in found.items():
            if name != other and text in taken:
                raise declared.error(
                    name, f'"{text}" is part of {other} "{taken}"', hint="Choose other ones."
                )
    if len(found[QUOTE]) > 1 or found[QUOTE] in BLANKS:
        raise declared.error(QUOTE, f'"{found[QUOTE]}" is not one character that is visible')
    encoding = encoding_of(declared)
    return Notation(found[PAIR_SEPARATOR], found[KEY_SEPARATOR], found[QUOTE], encoding)


class KeyValueDecoder:
    """Decodes the messages of one foreign stream; see ``codec.contract``.

    Raises:
      FormatOptionError: an option is wrong.
    """

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        self._names = [folded(field.name) for field in declared.row_type]
        self._converters = [converter(field.name, field.type) for field in declared.row_type]
        notation = notation_of(declared)
        self._separator = notation.pairs
        self._quote = notation.quote
        self._encoding = notation.encoding
        pairs, keys, quote = (re.escape(each) for each in (notation.pairs, notation.keys, notation.quote))
        # No possessive quantifiers: Python lost what they had captured before 3.11.5 (gh-101955).
        quoted = f"[{BLANKS}]*{quote}([^{quote}]*(?:{quote}{quote}[^{quote}]*)*){quote}[{BLANKS}]*"
        name, value = f"((?:(?!{keys}|{pairs})[^{quote}])*)", f"((?:(?!{pairs})[^{quote}])*)"
        self._pair = re.compile(f"(?:{quoted}|{name}){keys}(?:{quoted}|{value})(?:{pairs}|\\Z)", re.DOTALL)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        found = dict(self._found(text_of(value, self._encoding).removesuffix("\n").removesuffix("\r")))
        row: list[object] = []
        for field, name, convert in zip(self._row_type, self._names, self._converters, strict=True):
            text = found.get(name)
            if text is None and not field.nullable:
                what = "has no value" if name in found else "is absent"
                raise RejectedRowError(Reason.MISSING_FIELD, f'field "{field.name}" {what}')
            row.append(None if text is None else convert(text))
        return tuple(row)

    def _found(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Yield the pairs of a message: names as they are compared, and values, None for one that is empty.

        Raises:
          RejectedRowError: DECODE, something is not a pair.
        """
        at, end = 0, len(text.rstrip(BLANKS))
        while at < end:
            if text.startswith(self._separator, at):
                at += len(self._separator)
                continue
            if text[at] in BLANKS:
                at += 1
                continue
            pair = self._pair.match(text, at)
            if pair is None:
                raise RejectedRowError(Reason.DECODE, f'not a pair at character {at}: "{text[at : at + 40]}"')
            quoted_name, name, quoted_value, value = pair.groups()
            yield (
                folded(self._unquoted(quoted_name) if name is None else name.strip(BLANKS)),
                self._unquoted(quoted_value) if value is None else value.strip(BLANKS) or None,
            )
            at = pair.end()

    def _unquoted(self, text: str) -> str:
        return text.replace(self._quote * 2, self._quote)
