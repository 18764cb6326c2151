"""Single characters and bytes of text: ASCII CHR TRANSLATE STARTS_WITH ENDS_WITH OCTET_LENGTH."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, as_long_as_first, declared
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN, INTEGER, Kind, Type


def _chr(number: int) -> str:
    if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
        raise undefined("CHR", (number,), "the character does not exist")
    return chr(number)


def _translate(text: str, old: str, new: str) -> str:
    """Replace each character of ``old`` by that of ``new``; remove those beyond the end of ``new``."""
    table: dict[int, str | None] = {}
    for place, char in enumerate(old):
        table.setdefault(ord(char), new[place] if place < len(new) else None)
    return text.translate(table)


def _octet_length(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


def _edge(function: Any) -> Callable[[CallSignature], ColumnKernel | None]:
    def columnar(signature: CallSignature) -> ColumnKernel | None:
        part = signature.constants[1]
        if not isinstance(part, str) or signature.constants[0] is not None:
            return None

        def match(texts: Any, parts: Any) -> tuple[Any, Mask | None]:
            del parts
            return arrow.flags(function(texts, part)), None

        return match

    return columnar


CHARACTERS: Sequence[ScalarFunction] = (
    declared("ASCII", "t", always(INTEGER), lambda text: ord(text[0]) if text else 0),
    declared("CHR", "i", always(Type(Kind.VARCHAR, 1)), _chr),
    declared("TRANSLATE", "ttt", as_long_as_first, _translate),
    declared("STARTS_WITH", "tt", always(BOOLEAN), str.startswith, _edge(pc.starts_with)),
    declared("ENDS_WITH", "tt", always(BOOLEAN), str.endswith, _edge(pc.ends_with)),
    declared("OCTET_LENGTH", "b", always(INTEGER), _octet_length),
)
