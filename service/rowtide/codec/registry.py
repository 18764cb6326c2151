"""Which decoder a format has: one line a format."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.codec.contract import Decoder
from rowtide.codec.csv import CsvDecoder
from rowtide.codec.json import JsonDecoder
from rowtide.codec.raw import RawDecoder
from rowtide.errors import StatementError
from rowtide.rows.types import RowType


def _json(relation: str, row_type: RowType) -> Decoder:

    return JsonDecoder(relation, row_type)


def _csv(_relation: str, row_type: RowType) -> Decoder:

    return CsvDecoder(row_type)


def _raw(relation: str, row_type: RowType) -> Decoder:

    return RawDecoder(relation, row_type)


DECODERS: dict[str, Callable[[str, RowType], Decoder]] = {"JSON": _json, "CSV": _csv, "RAW": _raw}
"""Makers of decoders by format, as the option ``format`` of a foreign stream names it in upper case."""


DEFAULT_FORMAT = "JSON"
"""The format of a foreign stream that names none."""


def decoder_for(format_name: str, relation: str, row_type: RowType) -> Decoder:
    """Make the decoder of a foreign stream.

    Raises:
      StatementError: there is no such format, or it cannot carry a type of ``row_type``.
    """
    maker = DECODERS.get(format_name.upper())
    if maker is None:
        raise StatementError(
            f'format "{format_name}" of foreign stream "{relation}" does not exist',
            hint=f"The formats are {', '.join(sorted(DECODERS))}.",
        )
    return maker(relation, row_type)
