"""Single characters and bytes of text: ASCII CHR TRANSLATE STARTS_WITH ENDS_WITH OCTET_LENGTH."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import Function, Signature, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.rows.column import Mask
from rowtide.rows.types import BOOLEAN, INTEGER, Kind, Type


def _declared(
    name: str,
    takes: Callable[[Sequence[Type]], bool],
    result: Callable[[Sequence[Type]], Type],
    row: Callable[..., object],
    columnar: Callable[[Signature], ColumnKernel | None] = lambda signature: None,
) -> Function:
    def resolve(args: Sequence[Type]) -> Type:
        if not takes(args):
            raise mismatch(name, args)
        return result(args)

    def kernel(signature: Signature) -> RowKernel:
        del signature
        return row

    return strict(name, resolve, kernel, columnar)


def _texts(count: int) -> Callable[[Sequence[Type]], bool]:
    return lambda args: len(args) == count and all(arg.is_text for arg in args)


def _chr(number: int) -> str:
    if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
        raise undefined("CHR", (number,), "there is no such character")
    return chr(number)


def _translate(text: str, old: str, new: str) -> str:
    """Put the character of ``new`` for each one of ``old``; those beyond the end of ``new`` go."""
    table: dict[int, str | None] = {}
    for place, char in enumerate(old):
        table.setdefault(ord(char), new[place] if place < len(new) else None)
    return text.translate(table)


def _octet_length(value: str | bytes) -> int:
    return len(value.encode() if isinstance(value, str) else value)


def _edge(function: Any) -> Callable[[Signature], ColumnKernel | None]:
    def columnar(signature: Signature) -> ColumnKernel | None:
        part = signature.constants[1]
        if not isinstance(part, str) or signature.constants[0] is not None:
            return None

        def match(texts: Any, parts: Any) -> tuple[Any, Mask | None]:
            del parts
            return arrow.flags(function(texts, part)), None

        return match

    return columnar


CHARACTERS: Sequence[Function] = (
    _declared("ASCII", _texts(1), lambda args: INTEGER, lambda text: ord(text[0]) if text else 0),
    _declared(
        "CHR",
        lambda args: len(args) == 1 and args[0].is_integer,
        lambda args: Type(Kind.VARCHAR, 1),
        _chr,
    ),
    _declared("TRANSLATE", _texts(3), lambda args: Type(Kind.VARCHAR, args[0].precision), _translate),
    _declared("STARTS_WITH", _texts(2), lambda args: BOOLEAN, str.startswith, _edge(pc.starts_with)),
    _declared("ENDS_WITH", _texts(2), lambda args: BOOLEAN, str.endswith, _edge(pc.ends_with)),
    _declared(
        "OCTET_LENGTH",
        lambda args: len(args) == 1 and (args[0].is_text or args[0].is_binary),
        lambda args: INTEGER,
        _octet_length,
    ),
)
