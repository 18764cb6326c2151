"""Rows to whole messages: value, key, headers and partition, as the options of a foreign stream declare them.

See docs/sql/streams.md#written-messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rowtide.codec.api import Format
from rowtide.codec.encode.contract import ChangeEncoder, RegisteredEncoder, refuse
from rowtide.codec.encode.json import encode_json, json_writer, main_spelling
from rowtide.codec.encode.rows import RECORDS
from rowtide.codec.encode.text import text_writer
from rowtide.codec.format_options import (
    AUTO_REGISTER,
    AVRO_WRITE_OPTIONS,
    DEBEZIUM_WRITE_OPTIONS,
    KEY_FORMAT,
    KEY_SUBJECT,
    PRIMARY_KEY_FROM,
    REGISTRY_URL,
    REGISTRY_WRITE_OPTIONS,
    TOMBSTONES,
)
from rowtide.codec.options import Declared, FormatOption, FormatOptionError, check_options_taken
from rowtide.codec.registry import DEFAULT_FORMAT, FORMATS, every_option, find_format, format_names
from rowtide.plan.plan import ForeignStream
from rowtide.plan.upserts import CHANGES, KEY, UPSERT, named_columns, takes_changes
from rowtide.rows.types import Field, RowType
from rowtide_connectors.options import suggestion

HEADERS, PARTITION = "headers", "partition"
WRITE_OPTIONS = (
    FormatOption(KEY, "the columns of the message key, separated by commas"),
    FormatOption(
        KEY_FORMAT,
        "how the key is written: TEXT (the default for one column), JSON or AVRO (an object or record, or the value "
        "of one column). With changes the default is that of a table which reads the topic",
    ),
    FormatOption(
        CHANGES,
        f"{UPSERT}: rows replace the row of their key, and a DELETE is a message without a value; without this option "
        "the stream takes no DELETE",
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
    *AVRO_WRITE_OPTIONS,
    *DEBEZIUM_WRITE_OPTIONS,
)
"""The options of a written stream that make the parts of a message."""
KEY_FORMATS = ("AVRO", "JSON", "TEXT")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One message."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        headers = sum(len(name.encode()) + len(value) for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers


_FURTHER_OPTIONS = {
    "AVRO": AVRO_WRITE_OPTIONS,
    "PROTOBUF": REGISTRY_WRITE_OPTIONS,
    "DEBEZIUM_JSON": DEBEZIUM_WRITE_OPTIONS,
    "DEBEZIUM_AVRO": (*AVRO_WRITE_OPTIONS, *DEBEZIUM_WRITE_OPTIONS),
}
"""The options of a written stream in a format, besides those of a stream that is read."""


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
        if name == RECORDS:
            _check_columns_only(declared)
        found = find_format(name)
        if found is None or found.encoder is None:
            what = "does not exist" if found is None else "cannot be written"
            written = [each for each in format_names() if each not in FORMATS or FORMATS[each].encoder]
            raise FormatOptionError(
                f'format "{name}" of {declared.what} {what}',
                "format",
                hint=f"Formats that pumps write are {', '.join(each for each in written if each != name)}.",
            )
        _check_taken(name, found, declared)
        self._key = _columns(declared, KEY)
        _check_changes(declared, self._key)
        self._headers = _columns(declared, HEADERS)
        self._partition = next(iter(_columns(declared, PARTITION, most=1)), None)
        _check_partition(declared, self._partition)
        apart = {*self._headers, self._partition, *(self._key if name == "RAW" else ())}
        self._value = [at for at in range(len(stream.row_type)) if at not in apart]
        self._encoder = found.encoder(declared, _picked(stream.row_type, self._value))
        self._tombstones = declared.is_on(TOMBSTONES)
        if self.writes_changes and not takes_changes(options.items()):
            raise declared.error(
                "format",
                f"rows without changes cannot be written as {name}",
                hint=f"Add {CHANGES} '{UPSERT}' and key 'column'.",
            )
        self._key_writer, registered = _key_writer(declared, [stream.row_type[at] for at in self._key])
        self._registered: list[RegisteredEncoder] = [] if registered is None else [registered]
        if isinstance(self._encoder, RegisteredEncoder):
            self._registered.append(self._encoder)
        self._header_writers = [
            (main_spelling(field.name), _bytes_writer(declared, field))
            for field in (stream.row_type[at] for at in self._headers)
        ]

    def check(self) -> None:
        """Check schemas against their registry; changes nothing. Raises as ``RegisteredEncoder.check``."""
        for each in self._registered:
            each.check()

    def prepare(self) -> None:
        """Fetch or register schemas, before the first row. Raises as ``RegisteredEncoder.prepare``."""
        for each in self._registered:
            each.prepare()

    @property
    def writes_changes(self) -> bool:
        """Whether messages have the row before and the row after a change: ``encode_change`` makes them."""
        return isinstance(self._encoder, ChangeEncoder)

    def encode(self, row: Sequence[object], *, deletes: bool = False) -> Encoded:
        """Return the message of a row. One that ``deletes`` the row of its key has no value.

        Raises:
          RejectedRowError: CONSTRAINT, the row cannot be written.
        """
        assert not isinstance(self._encoder, ChangeEncoder)
        return self._encoded(row, None if deletes else self._encoder.encode(self._value_of(row)))

    def encode_change(
        self, before: Sequence[object] | None, after: Sequence[object] | None, rowtime: int
    ) -> list[Encoded]:
        """Return the messages of a change of one key; that of a delete may be followed by one without a value.

        Raises:
          RejectedRowError: CONSTRAINT, a row cannot be written.
        """
        assert isinstance(self._encoder, ChangeEncoder)
        old, new = (None if row is None else self._value_of(row) for row in (before, after))
        row = before if after is None else after
        assert row is not None
        found = [self._encoded(row, self._encoder.encode_change(old, new, rowtime))]
        if after is None and self._tombstones:
            found.append(replace(found[0], value=None))
        return found

    def _value_of(self, row: Sequence[object]) -> list[object]:
        return [row[at] for at in self._value]

    def _encoded(self, row: Sequence[object], value: bytes | None) -> Encoded:
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
        key = None if self._key_writer is None else self._key_writer([row[at] for at in self._key])
        return Encoded(value, key, tuple(headers), partition)


def _check_columns_only(declared: Declared) -> None:
    """Refuse the parts of messages that records do not have."""
    for option in (KEY, KEY_FORMAT, CHANGES, HEADERS, PARTITION):
        if option in declared.options:
            raise declared.error(
                option,
                f"format {RECORDS} does not take it",
                hint="A record has columns only: remove the option.",
            )


def _check_taken(name: str, found: Format, declared: Declared) -> None:
    """Refuse options of other formats."""
    # A stream writes its key from its columns, which are in the value.
    taken = tuple(option for option in found.options if option.name != PRIMARY_KEY_FROM)
    every = [option for _, option in every_option(name) if option.name != KEY_FORMAT]
    if declared.options.get(KEY_FORMAT, "").upper() == "AVRO":
        # The key needs the registry, whatever the format of the value is.
        every = [option for option in every if not option.name.startswith("registry_")]
        of_key = [option for option in AVRO_WRITE_OPTIONS if option.name in (KEY_SUBJECT, AUTO_REGISTER)]
        taken = (*taken, *of_key)
    taken = (*taken, *_FURTHER_OPTIONS.get(name, ()))
    check_options_taken(name, declared, taken, (*every, *AVRO_WRITE_OPTIONS, *DEBEZIUM_WRITE_OPTIONS))


def _picked(row_type: RowType, places: Sequence[int]) -> RowType:
    return RowType(tuple(row_type[at] for at in places))


def _columns(declared: Declared, option: str, most: int | None = None) -> tuple[int, ...]:
    """Return the positions of the columns that an option names.

    Raises:
      FormatOptionError: one of them does not exist, or is named twice.
    """
    text = declared.options.get(option)
    if text is None:
        return ()
    if not text.strip():
        raise declared.error(option, "it names no column")
    found, unknown = named_columns(declared.row_type, text)
    for name in unknown:
        shown = [main_spelling(each) for each in declared.row_type.names]
        hint = suggestion(name.lower(), shown)
        raise declared.error(option, f'column "{name}" does not exist', hint=hint)
    if len(set(found)) < len(found):
        raise declared.error(option, "it names a column twice")
    if most is not None and len(found) > most:
        raise declared.error(option, "it names more than one column")
    return found


def _check_changes(declared: Declared, key: Sequence[int]) -> None:
    """Refuse changes without a key, and those of one key in several partitions."""
    given = declared.options.get(CHANGES)
    if given is None:
        return
    if given.strip().lower() != UPSERT:
        raise declared.error(CHANGES, f'"{given}" is not supported', hint=f"Write {CHANGES} '{UPSERT}'.")
    if not key:
        raise declared.error(
            CHANGES, "messages have no key", hint="Add key 'column': a message replaces the row of its key."
        )
    if not set(_columns(declared, PARTITION)) <= set(key):
        raise declared.error(
            PARTITION,
            "the column is not part of the key",
            hint="Otherwise the changes of one row could be in two partitions. Add the column to the key.",
        )


def _check_partition(declared: Declared, at: int | None) -> None:
    if at is not None and not declared.row_type[at].type.is_integer:
        field = declared.row_type[at]
        raise declared.error(PARTITION, f'column "{field.name}" is {field.type}, not an integer')


_KeyWriter = Callable[[Sequence[object]], bytes | None]


def _key_writer(
    declared: Declared, fields: Sequence[Field]
) -> tuple[_KeyWriter | None, RegisteredEncoder | None]:
    """Return the function that makes a key of the key's values, and what asks a registry for its schema.

    Without the function messages have no key.
    """
    form = declared.options.get(KEY_FORMAT, _default_key_format(declared, len(fields))).upper()
    if not fields:
        if KEY_FORMAT in declared.options:
            raise declared.error(KEY_FORMAT, "the stream has no key", hint="Add key 'column' to its OPTIONS.")
        return None, None
    if form not in KEY_FORMATS:
        raise declared.error(
            KEY_FORMAT, f'"{form}" is not supported', hint=f"Keys are written as {' or '.join(KEY_FORMATS)}."
        )
    if form == "TEXT":
        return _text_key(declared, fields), None
    if form == "AVRO":
        from rowtide.codec.encode.avro import AvroKey

        avro = AvroKey(declared, fields)
        return avro.encode, avro
    return _json_key(declared, fields), None


def _default_key_format(declared: Declared, columns: int) -> str:
    form = declared.options.get("format", DEFAULT_FORMAT).upper()
    found = find_format(form)
    if takes_changes(declared.options.items()) and found is not None and found.fills_tables:
        # What a table that the topic fills reads by default.
        return "AVRO" if form.endswith("AVRO") and REGISTRY_URL in declared.options else "JSON"
    return "TEXT" if columns == 1 else "JSON"


def _json_key(declared: Declared, fields: Sequence[Field]) -> _KeyWriter:
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


def _text_key(declared: Declared, fields: Sequence[Field]) -> _KeyWriter:
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
