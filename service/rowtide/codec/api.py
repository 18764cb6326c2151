"""What a format is, and all that a format of another package imports from Rowtide.

An entry point of the group ``rowtide.formats`` names an object of ``Format``. docs/extend/package.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowtide.codec.contract import Decoded, DecodeFault, Decoder
from rowtide.codec.csv import converter
from rowtide.codec.encode.contract import ChangeEncoder, Encoder, refuse
from rowtide.codec.encode.text import text_writer
from rowtide.codec.options import Declared, FormatOption
from rowtide.codec.rowwise import check_fits, decode_each, text_of
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.rows.rowop import Row
from rowtide.rows.types import Field, RowType, Type

__all__ = [
    "ChangeEncoder",
    "Declared",
    "DecodeFault",
    "Decoded",
    "Decoder",
    "Encoder",
    "Field",
    "Format",
    "FormatOption",
    "Reason",
    "RejectedRowError",
    "Row",
    "RowType",
    "StatementError",
    "Type",
    "check_fits",
    "converter",
    "decode_each",
    "refuse",
    "text_of",
    "text_writer",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of messages: how a decoder and an encoder of a declaration are made, and their options.

    Both raise ``StatementError`` if the format cannot carry a column, and ``Declared.error`` for a wrong option.
    The row type of an encoder has the columns of the value only.
    """

    decoder: Callable[[Declared], Decoder]
    options: tuple[FormatOption, ...] = ()
    """Those of a foreign stream and of its columns."""
    description: str = ""
    """A phrase for lists of formats."""
    encoder: Callable[[Declared, RowType], Encoder | ChangeEncoder] | None = None
    """None: pumps cannot write the format. A ``ChangeEncoder``: they write the changes of a table only."""
    fills_tables: bool = False
    """Whether messages may be changes of a table: its decoder is a ``ChangeDecoder`` if ``Declared.key`` is set."""
