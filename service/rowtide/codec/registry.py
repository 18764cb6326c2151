"""Decoders by the name of their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rowtide.codec.changes import UpsertDecoder
from rowtide.codec.contract import Decoder
from rowtide.codec.csv import CsvDecoder
from rowtide.codec.debezium import DebeziumJsonDecoder
from rowtide.codec.format_options import AVRO_OPTIONS, DEBEZIUM_AVRO_OPTIONS, DEBEZIUM_OPTIONS, JSON_OPTIONS
from rowtide.codec.json import JsonDecoder
from rowtide.codec.options import Declared, FormatOption, check_options_taken
from rowtide.codec.raw import RawDecoder
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import RowType


def _json(declared: Declared) -> Decoder:
    decoder = JsonDecoder(declared.relation, declared.row_type, declared.columns)
    return UpsertDecoder(declared, decoder) if declared.key else decoder


def _debezium_json(declared: Declared) -> Decoder:
    return DebeziumJsonDecoder(declared)


def _avro(declared: Declared) -> Decoder:
    from rowtide.codec.avro import AvroDecoder

    decoder = AvroDecoder(declared)
    return UpsertDecoder(declared, decoder, "AVRO") if declared.key else decoder


def _debezium_avro(declared: Declared) -> Decoder:
    from rowtide.codec.debezium_avro import DebeziumAvroDecoder

    return DebeziumAvroDecoder(declared)


def _csv(declared: Declared) -> Decoder:
    _refuse_table("CSV", declared)
    return CsvDecoder(declared.row_type)


def _raw(declared: Declared) -> Decoder:
    _refuse_table("RAW", declared)
    return RawDecoder(declared.relation, declared.row_type)


def _refuse_table(format_name: str, declared: Declared) -> None:
    if declared.key:
        raise StatementError(
            f"{declared.what}: messages of format {format_name} are not changes of a table",
            hint="Declare a foreign stream, and a pump that writes its rows to a table.",
        )


@dataclass(frozen=True, slots=True)
class Format:
    """The constructor of a format's decoder, and the options that a stream and its columns may declare."""

    decoder: Callable[[Declared], Decoder]
    options: tuple[FormatOption, ...] = ()


FORMATS: dict[str, Format] = {
    "JSON": Format(_json, JSON_OPTIONS),
    "DEBEZIUM_JSON": Format(_debezium_json, DEBEZIUM_OPTIONS),
    "AVRO": Format(_avro, AVRO_OPTIONS),
    "DEBEZIUM_AVRO": Format(_debezium_avro, DEBEZIUM_AVRO_OPTIONS),
    "CSV": Format(_csv),
    "RAW": Format(_raw),
}
"""Formats by name, as the option ``format`` of a foreign stream names it in upper case."""


DEFAULT_FORMAT = "JSON"
"""The default format of a foreign stream."""


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


def every_option() -> Iterator[tuple[str, FormatOption]]:
    """Yield every option of each format with the format's name; a shared option once per format."""
    for name, found in FORMATS.items():
        for option in found.options:
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
    found = FORMATS.get(format_name.upper())
    if found is None:
        raise StatementError(
            f'format "{format_name}" of foreign stream "{relation}" does not exist',
            hint=f"The formats are {', '.join(sorted(FORMATS))}.",
        )
    declared = Declared(relation, row_type, options or {}, columns or {}, key, patched)
    check_options_taken(
        format_name.upper(), declared, found.options, (option for _, option in every_option())
    )
    return found.decoder(declared)
