"""CSV messages to columns: one message is one record (RFC 4180, docs/sql/streams.md#csv).

Fields are in the order of the columns, or have the names that the stream or the message gives. A field in quotes may
contain separators, line ends and doubled quotes. An empty field is NULL, or MISSING_FIELD if the column is NOT NULL;
``""`` is the empty text. CAST converts a field to the type of its column. If it fails, or if text is too long, the
message is rejected (TYPE). A record with more or fewer fields, or with unmatched quotes, is DECODE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import (
    ESCAPE,
    FIELDS,
    HEADER,
    NULL_TEXT,
    QUOTE,
    SEPARATOR,
    TRIM,
)
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import check_fits, decode_each, encoding_of, text_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import Row
from rowtide.rows.types import VARCHAR, Type

_TAB = {r"\t": "\t"}
_LINE_ENDS = "\r\n"
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class CsvNotation:
    """How a stream writes records. An empty ``quote`` or ``escape``: there is none.

    ``fields`` are the names of the fields, of those without a column empty; None: fields are in the order of columns.
    ``header``: a message begins with a line of names. ``blanks`` are ignored around fields.
    """

    separator: str
    quote: str
    escape: str
    null_text: str
    blanks: str
    fields: tuple[str, ...] | None
    header: bool
    encoding: str


def csv_notation(declared: Declared) -> CsvNotation:
    """Return the notation that the options of a stream declare.

    Raises:
      FormatOptionError: an option is wrong, or does not fit another one.
    """
    options = declared.options
    separator = options.get(SEPARATOR, ",")
    separator = _TAB.get(separator, separator)
    quote, escape, null = options.get(QUOTE, '"'), options.get(ESCAPE, ""), options.get(NULL_TEXT, "")
    if not separator or set(separator) & set(_LINE_ENDS):
        raise declared.error(SEPARATOR, "it is empty or has a line end", hint=f"Write {SEPARATOR} ','.")
    for name, text in ((QUOTE, quote), (ESCAPE, escape)):
        if len(text) > 1 or text in tuple(_BLANKS + _LINE_ENDS):
            raise declared.error(name, f'"{text}" is not one character that is visible')
        if text and text in separator:
            raise declared.error(name, f'"{text}" is part of {SEPARATOR} "{separator}"')
    if quote and quote == escape:
        raise declared.error(
            ESCAPE, "it is the quote", hint="Leave it out: a quote inside of quotes is doubled."
        )
    if separator in null or (quote and quote in null) or set(null) & set(_LINE_ENDS):
        raise declared.error(NULL_TEXT, f'"{null}" has a separator, a quote or a line end')
    trims, header = (declared.is_on(name, default="false") for name in (TRIM, HEADER))
    blanks = "".join(each for each in _BLANKS if each not in separator) if trims else ""
    if null != null.strip(blanks):
        raise declared.error(NULL_TEXT, f'"{null}" has blanks around it, which {TRIM} ignores')
    fields = _fields_of(declared)
    if header and fields is not None:
        raise declared.error(FIELDS, f"with {HEADER}, messages have the names of their fields")
    return CsvNotation(separator, quote, escape, null, blanks, fields, header, encoding_of(declared))


def _fields_of(declared: Declared) -> tuple[str, ...] | None:
    text = declared.options.get(FIELDS)
    if text is None:
        return None
    names = tuple(folded(each.strip()) for each in text.split(","))
    given = [each for each in names if each]
    if len(set(given)) < len(given):
        raise declared.error(FIELDS, "it names a field twice")
    return names


class CsvDecoder:
    """Decodes the CSV messages of one foreign stream; see ``codec.contract``.

    Raises:
      FormatOptionError: an option is wrong, or a column is not among the fields.
    """

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        self._notation = csv_notation(declared)
        self._record = _Record(self._notation)
        self._converters = [converter(field.name, field.type) for field in declared.row_type]
        self._names = [folded(field.name) for field in declared.row_type]
        self._places: Sequence[int | None] = range(len(self._names))
        self._count = len(self._names)
        fields = self._notation.fields
        if fields is not None:
            for field, name in zip(declared.row_type, self._names, strict=True):
                if name not in fields:
                    raise declared.error(
                        FIELDS,
                        f'column "{field.name}" is not among them',
                        hint="Name the fields of a record in their order, separated by commas.",
                    )
            self._places = [fields.index(name) for name in self._names]
            self._count = len(fields)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        text = text_of(value, self._notation.encoding).removesuffix("\n").removesuffix("\r")
        places, count = self._places, self._count
        if self._notation.header:
            first, _, text = text.partition("\n")
            names = [folded(each or "") for each in self._record.fields(first.removesuffix("\r"))]
            places, count = self._places_of(names), len(names)
        texts = list(self._record.fields(text))
        if len(texts) != count:
            raise RejectedRowError(Reason.DECODE, f"the record has {len(texts)} fields, not {count}")
        row: list[object] = []
        for field, convert, place in zip(self._row_type, self._converters, places, strict=True):
            given = None if place is None else texts[place]
            if given is None and not field.nullable:
                what = "absent" if place is None else "empty"
                raise RejectedRowError(Reason.MISSING_FIELD, f'field "{field.name}" is {what}')
            row.append(None if given is None else convert(given))
        return tuple(row)

    def _places_of(self, names: Sequence[str]) -> Sequence[int | None]:
        """Return where a record with these names has the columns."""
        found = {name: at for at, name in enumerate(names)}
        if len(found) < len(names):
            raise RejectedRowError(Reason.DECODE, "the header names a field twice")
        return [found.get(name) for name in self._names]


class _Record:
    """Cuts records of a notation into fields."""

    def __init__(self, notation: CsvNotation) -> None:
        self._notation = notation
        separator, quote, escape = (
            re.escape(each) for each in (notation.separator, notation.quote, notation.escape)
        )
        special, escaped = quote + escape, f"|{escape}." if escape else ""
        blanks = f"[{notation.blanks}]*" if notation.blanks else ""
        if len(notation.separator) == 1:
            character = f"[^{special}{separator}]"
        else:
            character = f"(?!{separator})" + (f"[^{special}]" if special else ".")
        plain = f"(?:{character}{escaped})*" if escaped or len(notation.separator) > 1 else f"{character}*"
        quoted = f"{blanks}{quote}((?:[^{special}]|{quote}{quote}{escaped})*){quote}{blanks}"
        # Without quotes the first group never matches.
        either = f"(?:{quoted if quote else '(?!)()'}|({plain}))"
        self._field = re.compile(f"{either}({separator}|\\Z)", re.DOTALL)
        self._escaped = re.compile(f"{escape}(.)", re.DOTALL) if escape else None
        self._inside = re.compile(f"{escape}(.)|({quote}){quote}", re.DOTALL) if escape else None
        self._unread = "a quote or an escape" if escape else "a quote"

    def fields(self, text: str) -> Iterator[str | None]:
        """Yield the fields of a record, None for one that is NULL.

        Raises:
          RejectedRowError: DECODE, a quote or an escape does not match.
        """
        at, more = 0, True
        while more:
            found = self._field.match(text, at)
            if found is None:
                raise RejectedRowError(Reason.DECODE, f"{self._unread} does not match (character {at})")
            quoted, plain, end = found.groups()
            yield self._quoted(quoted) if plain is None else self._plain(plain)
            at, more = found.end(), bool(end)

    def _plain(self, text: str) -> str | None:
        if self._notation.blanks:
            text = self._trimmed(text)
        if text == self._notation.null_text:
            return None
        return text if self._escaped is None else self._escaped.sub(r"\1", text)

    def _trimmed(self, text: str) -> str:
        """Return a field without the blanks around it; one after an escape is text."""
        inside = text.rstrip(self._notation.blanks)
        escapes = len(inside) - len(inside.rstrip(self._notation.escape)) if self._notation.escape else 0
        return text[: len(inside) + escapes % 2].lstrip(self._notation.blanks)

    def _quoted(self, text: str) -> str:
        if self._inside is None:
            return text.replace(self._notation.quote * 2, self._notation.quote)
        return self._inside.sub(lambda found: found[1] or found[2], text)


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
