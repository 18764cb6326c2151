"""Rows to whole messages: value, key, headers and partition, as the options of a foreign stream declare them.

See docs/sql/streams.md#written-messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rowtide.codec.encode.contract import Encoder, refuse
from rowtide.codec.encode.json import JsonEncoder, encode_json, json_writer, main_spelling
from rowtide.codec.encode.text import CsvEncoder, RawEncoder, text_writer
from rowtide.codec.format_options import KEY_FORMAT
from rowtide.codec.options import Declared, FormatOption, FormatOptionError, check_options_taken
from rowtide.codec.registry import DEFAULT_FORMAT, FORMATS, every_option
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import Field, RowType
from rowtide_connectors.options import suggestion

KEY, HEADERS, PARTITION = "key", "headers", "partition"
WRITE_OPTIONS = (
    FormatOption(KEY, "the columns of the message key, separated by commas"),
    FormatOption(
        KEY_FORMAT,
        "how the key is written: TEXT (the default for one column) or JSON (an object, or the value of one column)",
    ),
    FormatOption(
        HEADERS,
        "columns that are headers and not part of the value, separated by commas",
    ),
    FormatOption(
        PARTITION,
        "an integer column with the partition, which is not part of the value; "
        "NULL and no option: by the key",
    ),
)
"""The options of a written stream that make the parts of a message."""
KEY_FORMATS = ("JSON", "TEXT")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One message."""

    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        headers = sum(len(name.encode()) + len(value) for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + headers


_ENCODERS: Mapping[str, Callable[[Declared, RowType], Encoder]] = {
    "JSON": JsonEncoder,
    "CSV": CsvEncoder,
    "RAW": RawEncoder,
}
"""Encoders by the name of their format."""


class MessageEncoder:
    """Encodes the rows of one foreign stream.

    Raises:
      StatementError: the format cannot be written or does not fit the columns, or an option is wrong.
    """

    def __init__(self, stream: ForeignStream) -> None:
        options = dict(stream.options)
        columns = {name: dict(given) for name, given in stream.column_options}
        declared = Declared(stream.name, stream.row_type, options, columns)
        name = options.get("format", DEFAULT_FORMAT).upper()
        make = _ENCODERS.get(name)
        if make is None:
            what = "cannot be written" if name in FORMATS else "does not exist"
            raise FormatOptionError(
                f'format "{name}" of {declared.what} {what}',
                "format",
                hint=f"Formats that pumps write are {', '.join(sorted(_ENCODERS))}.",
            )
        check_options_taken(name, declared, FORMATS[name].options, (option for _, option in every_option()))
        self._key = _columns(declared, KEY)
        self._headers = _columns(declared, HEADERS)
        self._partition = next(iter(_columns(declared, PARTITION, most=1)), None)
        _check_partition(declared, self._partition)
        apart = {*self._headers, self._partition, *(self._key if name == "RAW" else ())}
        self._value = [at for at in range(len(stream.row_type)) if at not in apart]
        self._encoder = make(declared, _picked(stream.row_type, self._value))
        self._key_writer = _key_writer(declared, [stream.row_type[at] for at in self._key])
        self._header_writers = [
            (main_spelling(field.name), _bytes_writer(declared, field))
            for field in (stream.row_type[at] for at in self._headers)
        ]

    def encode(self, row: Sequence[object]) -> Encoded:
        """Return the message of a row.

        Raises:
          RejectedRowError: CONSTRAINT, the row cannot be written.
        """
        partition = None
        if self._partition is not None and row[self._partition] is not None:
            partition = int(str(row[self._partition]))
            if not 0 <= partition < 1 << 31:
                refuse(f"{partition} is not the number of a partition")
        headers = [
            (name, write(row[at]))
            for at, (name, write) in zip(self._headers, self._header_writers, strict=True)
            if row[at] is not None
        ]
        return Encoded(
            self._encoder.encode([row[at] for at in self._value]),
            None if self._key_writer is None else self._key_writer([row[at] for at in self._key]),
            tuple(headers),
            partition,
        )


def _picked(row_type: RowType, places: Sequence[int]) -> RowType:
    return RowType(tuple(row_type[at] for at in places))


def _columns(declared: Declared, option: str, most: int | None = None) -> tuple[int, ...]:
    """Return the positions of the columns that an option names.

    Raises:
      FormatOptionError: one of them does not exist, or is named twice.
    """
    given = [name.strip() for name in declared.options.get(option, "").split(",")]
    if given == [""]:
        if option in declared.options:
            raise declared.error(option, "it names no column")
        return ()
    found = []
    names = declared.row_type.names
    for name in given:
        written = name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name.upper()
        if written not in names:
            shown = [main_spelling(each) for each in names]
            hint = suggestion(main_spelling(written), shown)
            raise declared.error(option, f'column "{name}" does not exist', hint=hint)
        found.append(names.index(written))
    if len(set(found)) < len(found):
        raise declared.error(option, "it names a column twice")
    if most is not None and len(found) > most:
        raise declared.error(option, "it names more than one column")
    return tuple(found)


def _check_partition(declared: Declared, at: int | None) -> None:
    if at is not None and not declared.row_type[at].type.is_integer:
        field = declared.row_type[at]
        raise declared.error(PARTITION, f'column "{field.name}" is {field.type}, not an integer')


def _key_writer(
    declared: Declared, fields: Sequence[Field]
) -> Callable[[Sequence[object]], bytes | None] | None:
    """Return the function that makes a key of the key's values; None: messages have no key."""
    form = declared.options.get(KEY_FORMAT, "TEXT" if len(fields) == 1 else "JSON").upper()
    if not fields:
        if KEY_FORMAT in declared.options:
            raise declared.error(KEY_FORMAT, "the stream has no key", hint="Add key 'column' to its OPTIONS.")
        return None
    if form not in KEY_FORMATS:
        raise declared.error(
            KEY_FORMAT, f'"{form}" is not supported', hint=f"Keys are written as {' or '.join(KEY_FORMATS)}."
        )
    if form == "TEXT":
        return _text_key(declared, fields)
    writers = [json_writer(declared, field) for field in fields]
    names = [main_spelling(field.name) for field in fields]

    def as_json(row: Sequence[object]) -> bytes | None:
        if len(row) == 1 and row[0] is None:
            return None
        values = [
            value if value is None or write is None else write(value)
            for value, write in zip(row, writers, strict=True)
        ]
        return encode_json(values[0] if len(values) == 1 else dict(zip(names, values, strict=True)))

    return as_json


def _text_key(declared: Declared, fields: Sequence[Field]) -> Callable[[Sequence[object]], bytes | None]:
    if len(fields) > 1:
        raise declared.error(
            KEY_FORMAT,
            f"TEXT is for one column, and the key has {len(fields)}",
            hint="Write key_format 'JSON': the key is an object of its columns.",
        )
    write = _bytes_writer(declared, fields[0])
    return lambda row: None if row[0] is None else write(row[0])


def _bytes_writer(declared: Declared, field: Field) -> Callable[[object], bytes]:
    """Return the function that makes the bytes of a value: bytes as they are, other values as text."""
    if field.type.is_binary:
        return lambda value: value if isinstance(value, bytes) else b""
    write = text_writer(declared, field)
    return lambda value: write(value).encode()
