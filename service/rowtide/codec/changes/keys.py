"""Keys of messages: the columns of a table's PRIMARY KEY, in one of several formats.

See docs/sql/tables.md#tables-that-a-topic-fills.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from rowtide.codec.changes.rows import Gathered
from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.codec.csv import converter as text_converter
from rowtide.codec.format_options import KEY_FORMAT, PATH
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.json.faults import why_not_json
from rowtide.codec.options import Declared, Options
from rowtide.codec.records import RecordRows
from rowtide.codec.rowwise import check_fits, decode_each, text_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.rowop import Row
from rowtide.rows.types import Field, Kind, RowType

_PLAIN_FORMS = ("JSON", "TEXT", "KAFKA")
_SERIALIZED_NUMBERS = {
    Kind.SMALLINT: ">h",
    Kind.INTEGER: ">i",
    Kind.BIGINT: ">q",
    Kind.REAL: ">f",
    Kind.DOUBLE: ">d",
}


def key_type(declared: Declared) -> RowType:
    """Return the columns of the PRIMARY KEY."""
    return RowType(tuple(declared.row_type[at] for at in declared.key))


class KeyReader:
    """Decodes the keys of messages into the columns of a table's PRIMARY KEY.

    Raises:
      FormatOptionError: ``key_format`` does not exist, or does not fit the key.
    """

    def __init__(self, declared: Declared, default: str = "JSON") -> None:
        self._type = key_type(declared)
        form = declared.options.get(KEY_FORMAT, default).upper()
        forms = ("AVRO", *_PLAIN_FORMS) if default == "AVRO" else _PLAIN_FORMS
        if form not in forms:
            hint = f"Keys of messages of this format are {' or '.join(forms)}."
            raise declared.error(KEY_FORMAT, f'"{form}" is not supported', hint=hint)
        if form in ("TEXT", "KAFKA") and len(self._type) > 1:
            raise declared.error(
                KEY_FORMAT,
                f"{form} is for one column, and the PRIMARY KEY has {len(self._type)}",
                hint="Write keys as JSON objects, and declare key_format 'JSON'.",
            )
        self._convert: Callable[[bytes], object] | None = None
        if form == "TEXT":
            self._convert = _text_key(self._type[0])
        elif form == "KAFKA":
            self._convert = _kafka_key(declared, self._type[0])
        self._json = JsonDecoder(declared.relation, self._type, _of_keys(declared))
        self._avro: Callable[[Sequence[bytes]], Decoded] | None = None
        if form == "AVRO":
            self._avro = _avro_keys(declared, self._type)

    def delete(self, gathered: Gathered, places: Sequence[int], keys: Sequence[bytes | None]) -> None:
        """Add the DELETEs of messages at ``places`` with these keys."""
        missing = Reason.TOMBSTONE, "the message has neither a value nor a key"
        gathered.deletes(self.decode(keys, missing), places)

    def decode(self, keys: Sequence[bytes | None], missing: tuple[Reason, str]) -> Decoded:
        """Decode keys; ``missing`` is the fault of a message without one."""
        there = [(at, key) for at, key in enumerate(keys) if key is not None]
        decoded = self._decoded([key for _, key in there])
        places = np.array([at for at, _ in there], dtype=np.int64)
        faults = [DecodeFault(at, *missing) for at, key in enumerate(keys) if key is None]
        for fault in decoded.faults:
            at, key = there[fault.index]
            message = f"key of the message: {self._why(fault, key)}"
            faults.append(DecodeFault(at, fault.reason, message))
        in_order = tuple(sorted(faults, key=lambda fault: fault.index))
        return Decoded(decoded.columns, places[decoded.accepted], in_order)

    def _decoded(self, keys: Sequence[bytes]) -> Decoded:
        if self._avro is not None:
            return self._avro(keys)
        if self._convert is not None:
            return decode_each(keys, self._type, self._row)
        return self._json.decode([self._object(key) for key in keys])

    def _why(self, fault: DecodeFault, key: bytes) -> str:
        """Return the message of a fault; of one that is not JSON it counts the bytes of the key itself."""
        is_json = self._avro is None and self._convert is None and fault.reason is Reason.DECODE
        why = why_not_json(key, "it") if is_json else None
        return why or fault.message

    def _row(self, key: bytes) -> Row:
        assert self._convert is not None
        return (self._convert(key),)

    def _object(self, key: bytes) -> bytes:
        """Return a key as a JSON object of columns: out of the wrapper with its schema, or the only value."""
        try:
            inner = _decode_wrapper(key).payload
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            inner = None
        given = key if inner is None else bytes(inner)
        if len(self._type) == 1 and not given.lstrip().startswith(b"{"):
            name = self._type[0].name
            main = name.lower() if name == name.upper() else name
            return b"{" + msgspec.json.encode(main) + b":" + given + b"}"
        return given


def _text_key(field: Field) -> Callable[[bytes], object]:
    convert = text_converter(field.name, field.type)
    return lambda key: convert(text_of(key))


def _kafka_key(declared: Declared, field: Field) -> Callable[[bytes], object]:
    """Return the function that reads a column as Kafka's own serializers write it.

    Raises:
      FormatOptionError: none of them writes values of its type.
    """
    form = _SERIALIZED_NUMBERS.get(field.type.kind)
    if form is not None:
        size = struct.calcsize(form)

        def number(key: bytes) -> object:
            if len(key) != size:
                message = f'field "{field.name}": {field.type} has {size} bytes, and the key {len(key)}'
                raise RejectedRowError(Reason.DECODE, message)
            return struct.unpack(form, key)[0]

        return number
    if field.type.is_text:
        return _text_key(field)
    if field.type.kind is Kind.VARBINARY:

        def same(key: bytes) -> object:
            check_fits(field.name, key, field.type.precision)
            return key

        return same
    raise declared.error(
        KEY_FORMAT,
        f'KAFKA has no values of column "{field.name}", which is {field.type}',
        hint="Declare it as SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, VARCHAR or VARBINARY.",
    )


def _of_keys(declared: Declared) -> Mapping[str, Options]:
    """Return the options of columns as they are in keys: with units and patterns, and without paths in the value."""
    return {
        column: {name: value for name, value in options.items() if name != PATH}
        for column, options in declared.columns.items()
    }


def _avro_keys(declared: Declared, row_type: RowType) -> Callable[[Sequence[bytes]], Decoded]:
    """Return the decoder of keys in Avro: records with the columns of the key, or the value of the only one."""
    from rowtide.codec.avro import AvroRecords

    records = AvroRecords(declared, of_keys=True)
    rows = RecordRows(replace(declared, columns=_of_keys(declared)), row_type)

    def row(key: bytes) -> Row:
        found = records.read(key)
        if len(row_type) == 1 and not isinstance(found, dict):
            found = {row_type[0].name: found}
        return rows.row(found)

    def decode(keys: Sequence[bytes]) -> Decoded:
        records.prepare(keys)
        return decode_each(keys, row_type, row)

    return decode


class _Wrapper(msgspec.Struct):
    """The object in which Kafka Connect writes a value with its schema."""

    schema: msgspec.Raw
    payload: msgspec.Raw


_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode
