"""The installed formats by name: Rowtide's own, and entry points of the group ``rowtide.formats``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NoReturn, cast

from rowtide.codec.api import Format
from rowtide.codec.contract import Decoder
from rowtide.codec.csv import CsvDecoder
from rowtide.codec.encode.contract import ChangeEncoder, Encoder
from rowtide.codec.encode.json import JsonEncoder
from rowtide.codec.encode.rows import RECORDS, RecordEncoder
from rowtide.codec.encode.text import CsvEncoder, RawEncoder
from rowtide.codec.format_options import (
    AVRO_OPTIONS,
    BSON_OPTIONS,
    CSV_OPTIONS,
    DEBEZIUM_AVRO_OPTIONS,
    DEBEZIUM_OPTIONS,
    JSON_OPTIONS,
    KEY_VALUE_OPTIONS,
    PRIMARY_KEY_FROM,
    PROTOBUF_OPTIONS,
    RAW_OPTIONS,
    XML_OPTIONS,
)
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.options import Declared, FormatOption, check_options_taken
from rowtide.codec.registries import without_headers
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import RowType
from rowtide_connectors.errors import OptionError
from rowtide_connectors.installed import Addition, additions, shadowed

GROUP = "rowtide.formats"


def _upserts(declared: Declared, rows: Callable[[Declared], Decoder], key_format: str = "JSON") -> Decoder:
    """Return the decoder of a stream, or of upserts of the table that its messages fill."""
    if not declared.key:
        return rows(declared)
    from rowtide.codec.changes.upserts import UpsertDecoder

    return UpsertDecoder(declared, rows, key_format)


def _json(declared: Declared) -> Decoder:
    rows = _upserts(declared, lambda each: JsonDecoder(each.relation, each.row_type, each.columns))
    return without_headers(declared, rows)


def _debezium_json(declared: Declared) -> Decoder:
    from rowtide.codec.changes.debezium_json import DebeziumJsonDecoder

    return without_headers(declared, DebeziumJsonDecoder(declared))


def _write_debezium_json(declared: Declared, row_type: RowType) -> ChangeEncoder:
    from rowtide.codec.changes.envelopes import DebeziumJsonEncoder

    return DebeziumJsonEncoder(declared, row_type)


def _avro(declared: Declared) -> Decoder:
    from rowtide.codec.avro import AvroDecoder

    return _upserts(declared, AvroDecoder, "AVRO")


def _debezium_avro(declared: Declared) -> Decoder:
    from rowtide.codec.changes.debezium_avro import DebeziumAvroDecoder

    return DebeziumAvroDecoder(declared)


def _write_debezium_avro(declared: Declared, row_type: RowType) -> ChangeEncoder:
    from rowtide.codec.changes.envelopes_avro import DebeziumAvroEncoder

    return DebeziumAvroEncoder(declared, row_type)


def _write_avro(declared: Declared, row_type: RowType) -> Encoder:
    from rowtide.codec.encode.avro import AvroEncoder

    return AvroEncoder(declared, row_type)


def _protobuf(declared: Declared) -> Decoder:
    refuse_without_protobuf(declared)
    from rowtide.codec.protobuf.decoder import ProtobufDecoder

    return _upserts(declared, ProtobufDecoder)


def _write_protobuf(declared: Declared, row_type: RowType) -> Encoder:
    refuse_without_protobuf(declared)
    from rowtide.codec.encode.protobuf import ProtobufEncoder

    return ProtobufEncoder(declared, row_type)


def refuse_without_protobuf(declared: Declared) -> None:
    """Refuse the format if its package, an extra, is not installed.

    Raises:
      FormatOptionError: it is not.
    """
    _refuse_without("google.protobuf", "protobuf", "protobuf", declared)


def _refuse_without(module: str, package: str, extra: str, declared: Declared) -> None:
    parts = module.split(".")
    if any(find_spec(".".join(parts[: at + 1])) is None for at in range(len(parts))):
        raise declared.error(
            "format",
            f"{extra.upper()} needs the package {package}, which is not installed",
            hint=f"Install it: pip install 'rowtide[{extra}]'.",
        )


def _bson(declared: Declared) -> Decoder:
    _refuse_without("bson.codec_options", "pymongo", "bson", declared)
    from rowtide.codec.bson.decoder import BsonDecoder

    return _upserts(declared, BsonDecoder)


def _write_bson(declared: Declared, row_type: RowType) -> Encoder:
    _refuse_without("bson.codec_options", "pymongo", "bson", declared)
    from rowtide.codec.bson.encoder import BsonEncoder

    return BsonEncoder(declared, row_type)


def _csv(declared: Declared) -> Decoder:
    return CsvDecoder(declared)


def _key_value(declared: Declared) -> Decoder:
    from rowtide.codec.key_value import KeyValueDecoder

    return KeyValueDecoder(declared)


def _write_key_value(declared: Declared, row_type: RowType) -> Encoder:
    from rowtide.codec.encode.key_value import KeyValueEncoder

    return KeyValueEncoder(declared, row_type)


def _raw(declared: Declared) -> Decoder:
    from rowtide.codec.raw import RawDecoder

    return RawDecoder(declared)


def _xml(declared: Declared) -> Decoder:
    from rowtide.codec.xml.decoder import XmlDecoder

    return _upserts(declared, XmlDecoder)


def _write_xml(declared: Declared, row_type: RowType) -> Encoder:
    from rowtide.codec.xml.encoder import XmlEncoder

    return XmlEncoder(declared, row_type)


def _not_read(declared: Declared) -> NoReturn:
    raise declared.error(
        "format",
        f"{RECORDS} is not a format of messages",
        hint="Files of Parquet are read with file_format 'PARQUET': their rows are messages of format 'JSON'.",
    )


def _write_records(_declared: Declared, _row_type: RowType) -> Encoder:
    return RecordEncoder()


FORMATS: dict[str, Format] = {
    "JSON": Format(_json, JSON_OPTIONS, "JSON objects", JsonEncoder, fills_tables=True),
    "DEBEZIUM_JSON": Format(
        _debezium_json,
        DEBEZIUM_OPTIONS,
        "changes of Debezium in JSON",
        _write_debezium_json,
        fills_tables=True,
    ),
    "AVRO": Format(
        _avro, AVRO_OPTIONS, "Avro, with a Schema Registry or a schema", _write_avro, fills_tables=True
    ),
    "DEBEZIUM_AVRO": Format(
        _debezium_avro,
        DEBEZIUM_AVRO_OPTIONS,
        "changes of Debezium in Avro",
        _write_debezium_avro,
        fills_tables=True,
    ),
    "PROTOBUF": Format(
        _protobuf,
        PROTOBUF_OPTIONS,
        "Protobuf, with a Schema Registry or a descriptor set",
        _write_protobuf,
        fills_tables=True,
    ),
    "BSON": Format(_bson, BSON_OPTIONS, "BSON, the documents of MongoDB", _write_bson, fills_tables=True),
    "CSV": Format(_csv, CSV_OPTIONS, "one record of comma-separated values (RFC 4180)", CsvEncoder),
    "KEY_VALUE": Format(
        _key_value, KEY_VALUE_OPTIONS, "pairs of names and values, as in logs", _write_key_value
    ),
    "XML": Format(_xml, XML_OPTIONS, "XML documents", _write_xml, fills_tables=True),
    "RAW": Format(_raw, RAW_OPTIONS, "text or bytes as they are, in one column", RawEncoder),
}
"""The formats of Rowtide by name, as the option ``format`` of a foreign stream names it in upper case."""

_RECORDS = Format(_not_read, description="the columns of files", encoder=_write_records)
"""``RECORDS``: not a format of messages. Connectors that store columns take it."""

DEFAULT_FORMAT = "JSON"
"""The default format of a foreign stream."""

_OWN = {name.lower(): f"{__name__}:FORMATS" for name in FORMATS}


def format_names() -> tuple[str, ...]:
    """Return the names of all formats that are installed, sorted; some may not load."""
    return tuple(sorted({*FORMATS, *(name.upper() for name in formats_of_packages())}))


def formats_of_packages() -> Mapping[str, Addition]:
    """Return the formats of other packages by name, in lower case."""
    return additions(GROUP, "format", _OWN)


def shadowed_formats() -> Sequence[str]:
    """Return a sentence about each format of another package that has the name of one of Rowtide."""
    return shadowed(GROUP, _OWN)


def find_format(name: str) -> Format | None:
    """Return the format of this name, in any case; None if it does not exist.

    Raises:
      StatementError: it is of a package that cannot be loaded.
    """
    if name.upper() in FORMATS:
        return FORMATS[name.upper()]
    if name.upper() == RECORDS:
        return _RECORDS
    added = formats_of_packages().get(name.lower())
    if added is None:
        return None
    try:
        return cast(Format, added.load(tuple(Format.__slots__)))
    except OptionError as error:
        raise StatementError(error.message, hint=error.hint) from error


def format_of(stream: ForeignStream) -> str:
    """Return the format name of a foreign stream."""
    return dict(stream.options).get("format", DEFAULT_FORMAT).upper()


def decoder_of(stream: ForeignStream) -> Decoder:
    """Make the decoder of a foreign stream.

    Raises:
      StatementError: the format does not exist, it cannot carry a type of the stream, or an option is wrong.
    """
    columns = {name: dict(options) for name, options in stream.column_options}
    return decoder_for(
        dict(stream.options).get("format", DEFAULT_FORMAT),
        stream.name,
        stream.row_type,
        options=dict(stream.options),
        columns=columns,
        key=stream.key,
        patched=stream.is_patched,
    )


def every_option(format_name: str = DEFAULT_FORMAT) -> Iterator[tuple[str, FormatOption]]:
    """Yield every option of each format of Rowtide, and of the format of this name, with the format's name.

    A shared option is there once per format.

    Raises:
      StatementError: as ``find_format``.
    """
    formats = dict(FORMATS)
    found = find_format(format_name)
    if found is not None:
        formats[format_name.upper()] = found
    for name, each in formats.items():
        for option in each.options:
            yield name, option


def decoder_for(
    format_name: str,
    relation: str,
    row_type: RowType,
    *,
    options: Mapping[str, str] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    key: tuple[int, ...] = (),
    patched: bool = False,
) -> Decoder:
    """Make the decoder of a relation with messages of a format.

    Raises:
      StatementError: the format does not exist, it cannot carry a type of ``row_type``, or an option
      is wrong.
    """
    found = find_format(format_name)
    if found is None:
        raise StatementError(
            f'format "{format_name}" of foreign stream "{relation}" does not exist',
            hint=f"The formats are {', '.join(format_names())}.",
        )
    declared = Declared(relation, row_type, options or {}, columns or {}, key, patched)
    check_options_taken(
        format_name.upper(), declared, found.options, (option for _, option in every_option(format_name))
    )
    if key and not found.fills_tables:
        raise StatementError(
            f"{declared.what}: messages of format {format_name.upper()} are not changes of a table",
            hint="Declare a foreign stream, and a pump that writes its rows to a table.",
        )
    if not key and PRIMARY_KEY_FROM in declared.options:
        raise declared.error(
            PRIMARY_KEY_FROM,
            "a stream has no PRIMARY KEY",
            hint="Read the key as KAFKA_KEY, or declare a table.",
        )
    return found.decoder(declared)
